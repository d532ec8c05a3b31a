#pragma once
// Symbolic shapes of op_schema.hpp against real ones: binds symbols, finds contradictions, and
// gives the widths of outputs.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/expression.hpp"
#include "backplane/op_attributes.hpp"
#include "backplane/op_schema.hpp"

namespace bp {

// What stands in an op's slots, in the order of its schema; nullopt for an absent one. Values are
// described by their width.
struct OpShapes {
  std::vector<std::optional<uint64_t>> inputs;
  std::vector<std::optional<uint64_t>> outputs;
  std::vector<std::optional<std::vector<uint64_t>>> weights;
};

[[nodiscard]] inline std::string shape_text(const std::vector<uint64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

// Refers to the schema and the shapes it was bound with.
class ShapeSymbols {
 public:
  // Binds attributes, then each symbol that stands alone as a dimension of an input, a weight or an
  // output, in this order. `attributes` is this build's struct, or null where the kind has none.
  static ShapeSymbols bind(const OpSchema& schema, const void* attributes, const OpShapes& shapes) {
    ShapeSymbols symbols(schema, shapes);
    for (const AttributeSchema& field : schema.attributes) {
      if (field.type == AttributeType::kF32 || field.type == AttributeType::kEnum) continue;
      symbols.values_[std::string(field.name)] = get_attribute(field, attributes);
    }
    for (size_t i = 0; i < schema.inputs.size(); ++i) {
      symbols.bind_value(schema.inputs[i], at(shapes.inputs, i));
    }
    for (size_t i = 0; i < schema.weights.size(); ++i) {
      const auto dims = at(shapes.weights, i);
      const auto names = split(schema.weights[i].shape);
      if (!dims || dims->size() != names.size()) continue;
      for (size_t d = 0; d < names.size(); ++d) symbols.bind_symbol(names[d], (*dims)[d]);
    }
    for (size_t i = 0; i < schema.outputs.size(); ++i) {
      symbols.bind_value(schema.outputs[i], at(shapes.outputs, i));
    }
    return symbols;
  }

  [[nodiscard]] std::optional<uint64_t> find(std::string_view name) const {
    const auto it = values_.find(std::string(name));
    if (it == values_.end()) return std::nullopt;
    return static_cast<uint64_t>(it->second);
  }
  // Whether a slot of that name is filled.
  [[nodiscard]] bool has(std::string_view slot) const {
    return filled(schema_.inputs, shapes_.inputs, slot) ||
           filled(schema_.outputs, shapes_.outputs, slot) ||
           filled(schema_.weights, shapes_.weights, slot);
  }

  // The value of one dimension, without alternatives.
  [[nodiscard]] Result<uint64_t> dimension(std::string_view expression) const {
    BP_ASSIGN(const double value, Expression::number(expression, scope()));
    if (value < 0) return invalid_argument(std::string(expression) + " is negative");
    return static_cast<uint64_t>(value);
  }
  [[nodiscard]] Result<uint64_t> output_width(uint32_t output) const {
    return dimension(split(schema_.outputs[output].shape).back());
  }

  // "" or what is wrong: "has shape [3, 5], expected [n_out, n_in] = [3, 4]".
  [[nodiscard]] std::string mismatch_of_weight(uint32_t weight) const {
    const auto& dims = *shapes_.weights[weight];
    const SlotSchema& slot = schema_.weights[weight];
    const auto names = split(slot.shape);
    bool equal = names.size() == dims.size();
    for (size_t d = 0; equal && d < dims.size(); ++d) equal = allows(names[d], dims[d]);
    if (equal) return {};
    return "has shape " + shape_text(dims) + ", expected " + expectation(names);
  }
  [[nodiscard]] std::string mismatch_of_value(const SlotSchema& slot, uint64_t width) const {
    const std::string name = split(slot.shape).back();
    if (allows(name, width)) return {};
    return "has width " + std::to_string(width) + ", expected " + name + " = " +
           expected_value(name);
  }

  // "N, a if has(b) else c" to its dimensions.
  [[nodiscard]] static std::vector<std::string> split(std::string_view shape,
                                                      char separator = ',') {
    std::vector<std::string> parts;
    while (true) {
      const size_t end = shape.find(separator);
      parts.emplace_back(trim(shape.substr(0, end)));
      if (end == std::string_view::npos) return parts;
      shape.remove_prefix(end + 1);
    }
  }

 private:
  ShapeSymbols(const OpSchema& schema, const OpShapes& shapes) : schema_(schema), shapes_(shapes) {}

  template <class T>
  static std::optional<T> at(const std::vector<std::optional<T>>& slots, size_t i) {
    return i < slots.size() ? slots[i] : std::nullopt;
  }
  template <class T>
  static bool filled(std::span<const SlotSchema> slots, const std::vector<std::optional<T>>& shapes,
                     std::string_view name) {
    const uint32_t i = find_slot(slots, name);
    return i < shapes.size() && shapes[i].has_value();
  }
  static std::string_view trim(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
  }
  static bool is_symbol(std::string_view text) {
    return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
  }
  // The n of divisor(n), or "".
  static std::string_view divisor_argument(std::string_view text) {
    constexpr std::string_view prefix = "divisor(";
    if (!text.starts_with(prefix) || !text.ends_with(")")) return {};
    return text.substr(prefix.size(), text.size() - prefix.size() - 1);
  }

  void bind_symbol(std::string_view symbol, uint64_t value) {
    if (is_symbol(symbol)) values_.emplace(symbol, static_cast<double>(value));
  }
  void bind_value(const SlotSchema& slot, std::optional<uint64_t> width) {
    if (width) bind_symbol(split(slot.shape).back(), *width);
  }

  [[nodiscard]] ExpressionScope scope() const {
    return {[this](std::string_view name) -> std::optional<ExpressionValue> {
              const auto it = values_.find(std::string(name));
              if (it == values_.end()) return std::nullopt;
              return it->second;
            },
            [this](std::string_view slot) { return has(slot); }};
  }
  [[nodiscard]] bool allows(std::string_view text, uint64_t found) const {
    if (const auto n = divisor_argument(text); !n.empty()) {
      const auto whole = dimension(n);
      return whole.ok() && found != 0 && *whole % found == 0;
    }
    for (const std::string& alternative : split(text, '|')) {
      const auto value = dimension(alternative);
      if (value.ok() && *value == found) return true;
    }
    return false;
  }
  [[nodiscard]] std::string expected_value(std::string_view text) const {
    if (const auto n = divisor_argument(text); !n.empty()) {
      return "a divisor of " + expected_value(n);
    }
    std::string values;
    for (const std::string& alternative : split(text, '|')) {
      const auto value = dimension(alternative);
      if (value.ok() && *value == 0) continue;  // an attribute that is off
      if (!values.empty()) values += " or ";
      values += value.ok() ? std::to_string(*value) : "?";
    }
    return values;
  }
  [[nodiscard]] std::string expectation(const std::vector<std::string>& names) const {
    std::string symbolic = "[", values = "[";
    for (size_t d = 0; d < names.size(); ++d) {
      const std::string separator = d == 0 ? "" : ", ";
      symbolic += separator + names[d];
      values += separator + expected_value(names[d]);
    }
    return symbolic + "] = " + values + "]";
  }

  const OpSchema& schema_;
  const OpShapes& shapes_;
  std::map<std::string, double> values_;
};

}  // namespace bp

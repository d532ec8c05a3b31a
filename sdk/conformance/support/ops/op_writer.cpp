#include "sdk/conformance/support/ops/op_writer.hpp"

#include <algorithm>
#include <stdexcept>

#include "backplane/op_shapes.hpp"
#include "sdk/conformance/support/ops/op_lookup.hpp"

namespace bp::conformance {

namespace {

OpShapes shapes_of(ProgramBuilder& builder, const OpSlots& slots) {
  OpShapes shapes;
  const auto width = [&](uint32_t value) -> std::optional<uint64_t> {
    if (value == BP_NONE) return std::nullopt;
    return builder.value(value).width;
  };
  for (const uint32_t value : slots.inputs) shapes.inputs.push_back(width(value));
  for (const uint32_t value : slots.outputs) shapes.outputs.push_back(width(value));
  for (const uint32_t weight : slots.weights) {
    if (weight == BP_NONE) {
      shapes.weights.push_back(std::nullopt);
      continue;
    }
    const bp_weight_part& part = builder.weight_part(weight);
    shapes.weights.push_back(std::vector<uint64_t>(part.dims, part.dims + part.n_dims));
  }
  return shapes;
}

std::map<std::string, uint32_t> by_name(std::span<const SlotSchema> schema,
                                        const std::vector<uint32_t>& slots) {
  std::map<std::string, uint32_t> map;
  for (size_t i = 0; i < std::min(schema.size(), slots.size()); ++i) {
    if (slots[i] != BP_NONE) map[std::string(schema[i].name)] = slots[i];
  }
  return map;
}

uint32_t find(const std::map<std::string, uint32_t>& map, const std::string& name) {
  const auto it = map.find(name);
  return it == map.end() ? BP_NONE : it->second;
}

// What one composite becomes.
class Body {
 public:
  Body(ProgramBuilder& builder, std::string name, const OpSpec& spec, const OpSlots& slots,
       const AttributeBuffer& attributes)
      : builder_(builder),
        name_(std::move(name)),
        schema_(schema_of(spec.name)),
        attributes_(attributes.empty() ? default_attributes(schema_) : attributes),
        shapes_(shapes_of(builder, slots)),
        symbols_(ShapeSymbols::bind(schema_, attributes_.data(), shapes_)),
        rows_(builder.value(slots.inputs.front())),
        variables_(by_name(schema_.inputs, slots.inputs)),
        outputs_(by_name(schema_.outputs, slots.outputs)),
        weights_(by_name(schema_.weights, slots.weights)) {
    for (const BodyEntry& entry : spec.body) {
      if (value_of(Expression::condition(entry.when, scope()))) entries_.push_back(&entry);
    }
  }
  void write() {
    for (size_t i = 0; i < entries_.size(); ++i) add(i);
  }

 private:
  [[nodiscard]] ExpressionScope scope() const {
    return {[this](std::string_view name) -> std::optional<ExpressionValue> {
              const AttributeSchema* field = find_attribute(schema_, name);
              if (field != nullptr) {
                const double value = get_attribute(*field, attributes_.data());
                if (field->type != AttributeType::kEnum) return value;
                return std::string(field->enum_names[static_cast<size_t>(value)]);
              }
              if (const auto size = symbols_.find(name)) return static_cast<double>(*size);
              return std::nullopt;
            },
            [this](std::string_view slot) { return symbols_.has(slot); }};
  }

  [[nodiscard]] AttributeBuffer attributes_of(const BodyEntry& entry,
                                              const OpSchema& primitive) const {
    AttributeBuffer attributes = default_attributes(primitive);
    for (const auto& [name, text] : entry.attributes) {
      const AttributeSchema* field = find_attribute(primitive, name);
      if (field == nullptr) throw std::runtime_error(entry.op + " has no attribute " + name);
      const ExpressionValue value = value_of(Expression::evaluate(text, scope()));
      const auto* word = std::get_if<std::string>(&value);
      const Status status = word != nullptr
                                ? set_attribute(*field, attributes.data(), *word)
                                : set_attribute(*field, attributes.data(), std::get<double>(value));
      if (!status.ok()) throw std::runtime_error(status.message());
    }
    return attributes;
  }

  void add(size_t at) {
    const BodyEntry& entry = *entries_[at];
    const OpSchema& primitive = schema_of(entry.op);
    OpSlots slots;
    for (const std::string& in : entry.in) slots.inputs.push_back(variables_.at(in));
    for (const std::string& w : entry.weights) slots.weights.push_back(find(weights_, w));
    const AttributeBuffer attributes = attributes_of(entry, primitive);
    const OpShapes shapes = shapes_of(builder_, slots);
    const auto symbols = ShapeSymbols::bind(primitive, attributes.data(), shapes);
    for (uint32_t o = 0; o < entry.out.size(); ++o) {
      const std::string& out = entry.out[o];
      uint32_t value = is_last_write(out, at) ? find(outputs_, out) : BP_NONE;
      if (value == BP_NONE) {
        value = builder_.add_value(value_of(symbols.output_width(o)), rows_.rows, rows_.output);
      }
      slots.outputs.push_back(value);
      variables_[out] = value;
    }
    const uint32_t op =
        builder_.add_op(entry.op, slots.inputs, slots.outputs, slots.weights, attributes);
    builder_.name_op(op, name_ + "." + entry.op + "." + std::to_string(at));
  }
  [[nodiscard]] bool is_last_write(const std::string& name, size_t at) const {
    return std::none_of(entries_.begin() + static_cast<std::ptrdiff_t>(at) + 1, entries_.end(),
                        [&](const BodyEntry* later) {
                          return std::find(later->out.begin(), later->out.end(), name) !=
                                 later->out.end();
                        });
  }

  ProgramBuilder& builder_;
  std::string name_;
  const OpSchema& schema_;
  AttributeBuffer attributes_;
  OpShapes shapes_;
  ShapeSymbols symbols_;
  bp_value rows_;  // whose rows the body's values have
  std::map<std::string, uint32_t> variables_, outputs_, weights_;
  std::vector<const BodyEntry*> entries_;
};

}  // namespace

void add_body(ProgramBuilder& builder, const std::string& name, const OpSpec& spec,
              const OpSlots& slots, const AttributeBuffer& attributes) {
  Body(builder, name, spec, slots, attributes).write();
}

void OpWriter::add(const std::string& name, const std::string& kind, const OpSlots& slots,
                   const AttributeBuffer& attributes) {
  const auto spec = std::find_if(specs_.begin(), specs_.end(),
                                 [&](const OpSpec& candidate) { return candidate.name == kind; });
  if (inlined_.count(kind) > 0 && spec != specs_.end() && !spec->body.empty()) {
    return add_body(builder_, name, *spec, slots, attributes);
  }
  const uint32_t op = builder_.add_op(kind, slots.inputs, slots.outputs, slots.weights, attributes);
  builder_.name_op(op, name);
}

}  // namespace bp::conformance

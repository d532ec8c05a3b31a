#include "core/convert/gguf_parameters.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace bp::convert {

namespace {

using model::Architecture;
using model::List;
using model::ModelScope;
using model::OpEntry;
using model::ParameterSpec;
using model::ParameterType;
using model::PlacedExpression;
using model::Value;

// What layouts differ in and tensors make up for.
constexpr std::string_view kOfLayout[] = {"rope_pairing", "norm_offset"};

bool is_nothing(const Value& value) {
  const auto number = value.as_number();
  return value.is_none() || (number && *number == 0);
}

// One number for all layers where they have the same.
Value shortened(const ParameterSpec& spec, Value value) {
  const bool is_numbers = spec.type == ParameterType::kInt || spec.type == ParameterType::kFloat;
  if (!spec.per_layer || !is_numbers || !value.is_list() || value.list().empty()) return value;
  const Value first = value.list()[0];
  for (const Value& element : value.list()) {
    if (!equal(element, first)) return value;
  }
  return first;
}

template <class T, class As>
Result<std::vector<T>> elements(const Value& value, As as) {
  const List one{value};
  std::vector<T> out;
  for (const Value& element : value.is_list() ? value.list() : one) {
    const auto x = as(element);
    if (!x) return invalid_argument(fmt::format("{} cannot be written", value.text()));
    out.push_back(*x);
  }
  return out;
}

Status put(const std::string& key, ParameterType type, const Value& value, MetadataTable& out) {
  const bool is_list = value.is_list();
  if (type == ParameterType::kInt) {
    BP_ASSIGN(auto ints, elements<int64_t>(value, [](const Value& v) { return v.as_int(); }));
    out.put_int(key, std::move(ints), is_list);
  } else if (type == ParameterType::kFloat) {
    BP_ASSIGN(auto floats, elements<double>(value, [](const Value& v) { return v.as_number(); }));
    out.put_float(key, std::move(floats), is_list);
  } else if (type == ParameterType::kBool) {
    BP_ASSIGN(auto bools, elements<bool>(value, [](const Value& v) { return v.as_bool(); }));
    out.put_bool(key, std::move(bools), is_list);
  } else if (const std::string* text = value.as_string()) {
    out.put_string(key, *text);
  } else {
    return invalid_argument(fmt::format("{} cannot be written", value.text()));
  }
  return {};
}

ParameterType type_of(const Value& value) {
  if (value.as_string() != nullptr) return ParameterType::kString;
  if (value.as_bool()) return ParameterType::kBool;
  return std::holds_alternative<double>(value) ? ParameterType::kFloat : ParameterType::kInt;
}

// What `written` says, of each layer where there are such; none where it says nothing.
Result<Value> written_value(const ParameterSpec& spec, ModelScope& scope) {
  if (!spec.written) return Value();
  if (!spec.per_layer) return spec.written->evaluate(scope);
  List list;
  const auto n_layers = scope.find("n_layers");
  for (int64_t i = 0; i < (n_layers ? n_layers->as_int().value_or(0) : 0); ++i) {
    scope.values["i"] = i;
    auto value = spec.written->evaluate(scope);
    scope.values.erase("i");
    if (!value.ok() || value->is_none()) return value;
    list.push_back(*std::move(value));
  }
  return Value(std::move(list));
}

Status put_parameter(const ParameterSpec& spec, const std::string& architecture, ModelScope& scope,
                     MetadataTable& out) {
  const auto keys = spec.keys.find("gguf");
  if (keys == spec.keys.end()) return {};
  BP_ASSIGN(Value value, written_value(spec, scope));
  if (!spec.written && spec.keys.count("huggingface") != 0) {
    value = scope.find(spec.name).value_or(Value());
  }
  value = shortened(spec, std::move(value));
  if (is_nothing(value)) return {};
  const std::string key = model::replace_all(keys->second[0], "{arch}", architecture);
  return put(key, spec.type, value, out).with_context(spec.place.place());
}

bool names(const PlacedExpression& expression, const std::string& name) {
  const std::string& text = expression.expression.text();
  const auto is_word = [&](size_t k) {
    return k < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[k])) != 0 || text[k] == '_');
  };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if ((at == 0 || !is_word(at - 1)) && !is_word(at + name.size())) return true;
  }
  return false;
}

bool is_used(const std::vector<OpEntry>& ops, const std::string& name) {
  return std::ranges::any_of(ops, [&](const OpEntry& op) {
    return (op.when && names(*op.when, name)) ||
           (op.include_when && names(*op.include_when, name)) ||
           std::ranges::any_of(op.attributes, [&](const model::AttributeEntry& attribute) {
             return names(attribute.value, name);
           });
  });
}

// By the program itself, not by the defaults of others.
bool is_used(const Architecture& architecture, const std::string& name) {
  const auto slots =
      std::ranges::any_of(architecture.layer.kv_slots, [&](const model::KvSlotSpec& slot) {
        return names(slot.n_kv_heads, name) || names(slot.k_head_dim, name) ||
               names(slot.v_head_dim, name) || (slot.window && names(*slot.window, name));
      });
  return slots || is_used(architecture.prologue, name) || is_used(architecture.layer.ops, name) ||
         is_used(architecture.epilogue, name);
}

bool close(const Value& a, const Value& b) {
  if (a.is_list() && b.is_list()) return std::ranges::equal(a.list(), b.list(), close);
  const auto x = a.as_number(), y = b.as_number();
  // Files hold floats of 32 bits.
  if (x && y) return std::abs(*x - *y) <= 1e-6 * std::max(std::abs(*x), std::abs(*y));
  return equal(a, b);
}

}  // namespace

Status put_parameters(const Architecture& architecture, ModelScope& scope,
                      MetadataTable& metadata) {
  const auto names = architecture.names.find("gguf");
  if (names == architecture.names.end() || names->second.empty()) {
    return unsupported(architecture.path + ": GGUF has no name for this architecture");
  }
  std::string name = names->second[0];
  if (const auto own = architecture.gguf_metadata.find("general.architecture");
      own != architecture.gguf_metadata.end()) {
    BP_ASSIGN(const Value value, own->second.evaluate(scope));
    if (value.as_string() != nullptr) name = *value.as_string();
  }
  metadata.put_string("general.architecture", name);
  for (const auto& [key, expression] : architecture.gguf_metadata) {
    BP_ASSIGN(const Value value, expression.evaluate(scope));
    if (value.is_none()) continue;
    BP_TRY(put(model::replace_all(key, "{arch}", name), type_of(value), value, metadata)
               .with_context(expression.place.place()));
  }
  for (const ParameterSpec& spec : architecture.parameters) {
    BP_TRY(put_parameter(spec, name, scope, metadata));
  }
  return {};
}

Status compare_parameters(const Architecture& architecture, ModelScope& source,
                          const ModelScope& written) {
  for (const ParameterSpec& spec : architecture.parameters) {
    if (std::ranges::count(kOfLayout, spec.name) > 0 || !is_used(architecture, spec.name)) continue;
    BP_ASSIGN(Value before, written_value(spec, source));
    if (before.is_none()) before = source.find(spec.name).value_or(Value());
    const Value after = written.find(spec.name).value_or(Value());
    if (close(before, after)) continue;
    return unsupported(fmt::format("GGUF files of {} have {} = {}, and this model {}",
                                   architecture.id, spec.name, after.text(), before.text()));
  }
  return {};
}

std::map<std::string, PlacedExpression> norm_offsets(const Architecture& architecture) {
  std::map<std::string, PlacedExpression> out;
  const auto add = [&](const std::vector<OpEntry>& ops) {
    for (const OpEntry& op : ops) {
      for (const model::AttributeEntry& attribute : op.attributes) {
        if (!std::string_view(attribute.field->name).ends_with("weight_offset")) continue;
        for (const model::SlotEntry& weight : op.weights) {
          const std::string_view slot = op.schema->weights[weight.slot].name;
          if (slot == "weight" || slot.ends_with("_norm"))
            out.emplace(weight.name, attribute.value);
        }
      }
    }
  };
  add(architecture.prologue);
  add(architecture.layer.ops);
  add(architecture.epilogue);
  return out;
}

}  // namespace bp::convert

#include "core/model/op_entry.hpp"

#include <fmt/format.h>

#include "core/base/nearest.hpp"

namespace bp::model {

namespace {

using base::Yaml;

template <class Schema>
std::vector<std::string> names_of(std::span<const Schema> schemas) {
  std::vector<std::string> names;
  for (const Schema& schema : schemas) names.emplace_back(schema.name);
  return names;
}

std::vector<std::string> known_kinds() {
  std::vector<std::string> kinds;
  for (const OpSchema& schema : all_op_schemas()) kinds.emplace_back(schema.kind);
  return kinds;
}

Result<std::vector<SlotEntry>> parse_positional(const Yaml& node,
                                                std::span<const SlotSchema> schema) {
  std::vector<SlotEntry> slots;
  BP_ASSIGN(const auto items, node.items());
  for (const Yaml& item : items) {
    if (slots.size() == schema.size()) {
      return item.error(fmt::format("there are only {} slots", schema.size()));
    }
    BP_ASSIGN(std::string name, item.as_string());
    slots.push_back({static_cast<uint32_t>(slots.size()), std::move(name), item});
  }
  return slots;
}

Result<std::vector<SlotEntry>> parse_slots(const Yaml& op, const std::string& key,
                                           std::span<const SlotSchema> schema) {
  std::vector<SlotEntry> slots;
  const auto node = op.find(key);
  if (!node) return slots;
  if (node->is_list()) return parse_positional(*node, schema);
  BP_ASSIGN(const auto members, node->members());
  for (const auto& [slot, value] : members) {
    const uint32_t index = find_slot(schema, slot);
    if (index == BP_NONE) {
      return value.error("no such slot" + base::nearest_hint(slot, names_of(schema)));
    }
    BP_ASSIGN(std::string name, value.as_string());
    slots.push_back({index, std::move(name), value});
  }
  return slots;
}

Result<std::vector<AttributeEntry>> parse_attributes(const Yaml& op, const OpSchema& schema) {
  std::vector<AttributeEntry> attributes;
  std::vector<bool> given(schema.attributes.size());
  if (const auto node = op.find("attributes")) {
    BP_ASSIGN(const auto members, node->members());
    for (const auto& [name, value] : members) {
      const AttributeSchema* field = find_attribute(schema, name);
      if (field == nullptr) {
        return value.error("no such attribute" +
                           base::nearest_hint(name, names_of(schema.attributes)));
      }
      given[static_cast<size_t>(field - schema.attributes.data())] = true;
      BP_ASSIGN(PlacedExpression expression, PlacedExpression::parse(value));
      attributes.push_back({field, std::move(expression)});
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] || !schema.attributes[i].required) continue;
    return op.error(
        fmt::format("{} needs the attribute {}", schema.kind, schema.attributes[i].name));
  }
  return attributes;
}

// The names of an enum attribute's values stand for themselves where nothing else has that name.
class EnumScope : public Scope {
 public:
  EnumScope(const Scope& outer, const AttributeSchema& field) : outer_(outer), field_(field) {}
  [[nodiscard]] std::optional<Value> find(std::string_view name) const override {
    if (auto value = outer_.find(name)) return value;
    for (const std::string_view known : field_.enum_names) {
      if (known == name) return Value(std::string(name));
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Value> query(std::string_view function,
                                           std::string_view name) const override {
    return outer_.query(function, name);
  }

 private:
  const Scope& outer_;
  const AttributeSchema& field_;
};

Status set_attribute_value(const AttributeEntry& entry, const Scope& scope, void* attributes) {
  BP_ASSIGN(const Value value, entry.value.evaluate(EnumScope(scope, *entry.field)));
  Status status;
  if (const std::string* name = value.as_string()) {
    status = set_attribute(*entry.field, attributes, std::string_view(*name));
  } else if (value.is_none()) {  // the enum value of that name is a literal of the language
    status = set_attribute(*entry.field, attributes, std::string_view("none"));
  } else if (const auto flag = value.as_bool()) {
    status = set_attribute(*entry.field, attributes, *flag ? 1.0 : 0.0);
  } else if (const auto number = value.as_number()) {
    status = set_attribute(*entry.field, attributes, *number);
  } else {
    status = invalid_argument(fmt::format("a {} is no attribute", value.type_name()));
  }
  return status.ok() ? status : entry.value.place.error(status.message());
}

// The index bound to the entry's name, BP_NONE where it is absent and the slot allows that.
Result<uint32_t> look_up(const SlotEntry& entry, std::span<const SlotSchema> schema,
                         const std::map<std::string, uint32_t>& names, const char* what) {
  const auto it = names.find(entry.name);
  if (it == names.end()) {
    std::vector<std::string> known;
    for (const auto& [name, index] : names) known.push_back(name);
    return entry.place.error(fmt::format("{} '{}' is not known here{}", what, entry.name,
                                         base::nearest_hint(entry.name, known)));
  }
  if (it->second == BP_NONE && !schema[entry.slot].optional) {
    return entry.place.error(fmt::format("{} '{}' is absent here, and slot {} needs one", what,
                                         entry.name, schema[entry.slot].name));
  }
  return it->second;
}

Status fill_slots(const std::vector<SlotEntry>& entries, std::span<const SlotSchema> schema,
                  const std::map<std::string, uint32_t>& names, const char* what,
                  std::vector<uint32_t>& slots) {
  slots.assign(schema.size(), BP_NONE);
  for (const SlotEntry& entry : entries) {
    BP_ASSIGN(slots[entry.slot], look_up(entry, schema, names, what));
  }
  return {};
}

}  // namespace

Result<PlacedExpression> PlacedExpression::parse(const Yaml& node) {
  BP_ASSIGN(std::string text, node.as_string());
  auto expression = Expression::parse(std::move(text));
  if (!expression.ok()) return node.error(expression.status().message());
  return PlacedExpression{node, *std::move(expression)};
}

Result<std::optional<PlacedExpression>> PlacedExpression::find(const Yaml& node,
                                                               const std::string& name) {
  const auto member = node.find(name);
  if (!member) return std::optional<PlacedExpression>();
  BP_ASSIGN(PlacedExpression expression, parse(*member));
  return std::optional(std::move(expression));
}

Result<Value> PlacedExpression::evaluate(const Scope& scope) const {
  auto value = expression.evaluate(scope);
  return value.ok() ? value : Result<Value>(place.error(value.status().message()));
}
Result<bool> PlacedExpression::condition(const Scope& scope) const {
  auto value = expression.condition(scope);
  return value.ok() ? value : Result<bool>(place.error(value.status().message()));
}
Result<int64_t> PlacedExpression::integer(const Scope& scope) const {
  auto value = expression.integer(scope);
  return value.ok() ? value : Result<int64_t>(place.error(value.status().message()));
}
Result<double> PlacedExpression::number(const Scope& scope) const {
  auto value = expression.number(scope);
  return value.ok() ? value : Result<double>(place.error(value.status().message()));
}

Result<OpEntry> parse_op_entry(const Yaml& node) {
  BP_TRY(node.expect_keys({"op", "name", "when", "in", "out", "weights", "attributes", "output"}));
  const auto kind_node = node.find("op");
  if (!kind_node) return node.error("needs the key op");
  BP_ASSIGN(const std::string kind, kind_node->as_string());
  const OpSchema* schema = find_op_schema(kind);
  if (schema == nullptr) {
    return kind_node->error(
        fmt::format("op '{}' is unknown{}", kind, base::nearest_hint(kind, known_kinds())));
  }
  OpEntry entry{node, schema, kind, {}, {}, {}, {}, {}, {}, {}};
  if (const auto name = node.find("name")) {
    BP_ASSIGN(entry.name, name->as_string());
  }
  if (const auto output = node.find("output")) {
    BP_ASSIGN(entry.row_output, output->as_string());
  }
  BP_ASSIGN(entry.when, PlacedExpression::find(node, "when"));
  BP_ASSIGN(entry.inputs, parse_slots(node, "in", schema->inputs));
  BP_ASSIGN(entry.outputs, parse_slots(node, "out", schema->outputs));
  BP_ASSIGN(entry.weights, parse_slots(node, "weights", schema->weights));
  BP_ASSIGN(entry.attributes, parse_attributes(node, *schema));
  return entry;
}

Result<std::vector<OpEntry>> parse_op_entries(const Yaml& node) {
  std::vector<OpEntry> entries;
  BP_ASSIGN(const auto items, node.items());
  for (const Yaml& item : items) {
    BP_ASSIGN(OpEntry entry, parse_op_entry(item));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Status run_entry(const OpEntry& entry, const Scope& scope, const std::string& op_name,
                 uint32_t row_output, Bindings& bindings, ProgramParts& parts) {
  for (const auto* when : {&entry.include_when, &entry.when}) {
    if (!*when) continue;
    BP_ASSIGN(const bool wanted, (*when)->condition(scope));
    if (!wanted) return {};
  }
  Op op;
  op.schema = entry.schema;
  op.name = op_name;
  BP_TRY(fill_slots(entry.inputs, op.schema->inputs, bindings.values, "value", op.inputs));
  BP_TRY(fill_slots(entry.weights, op.schema->weights, bindings.weights, "weight", op.weights));
  op.outputs.assign(op.schema->outputs.size(), BP_NONE);
  for (const SlotEntry& output : entry.outputs) op.outputs[output.slot] = 0;
  op.attributes = default_attributes(*op.schema);
  for (const AttributeEntry& attribute : entry.attributes) {
    BP_TRY(set_attribute_value(attribute, scope, op.attributes.data()));
  }
  auto appended = append_op(parts, std::move(op), row_output);
  if (!appended.ok()) return entry.place.error(appended.status().message());
  for (const SlotEntry& output : entry.outputs) {
    bindings.values[output.name] = (*appended)->outputs[output.slot];
  }
  return {};
}

}  // namespace bp::model

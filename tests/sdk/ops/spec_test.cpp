// The spec files and the table of op_schema.hpp say the same.

#include <gtest/gtest.h>

#include <set>

#include "backplane/dtype.hpp"
#include "backplane/op_attributes.hpp"
#include "backplane/op_schema.hpp"
#include "sdk/conformance/support/ops/op_spec.hpp"
#include "tests/support/op_specs.hpp"

namespace bp::test {
namespace {

using namespace conformance;

void expect_slots(const std::vector<SpecSlot>& spec, std::span<const SlotSchema> schema,
                  std::string_view default_dtype) {
  ASSERT_EQ(spec.size(), schema.size());
  for (size_t i = 0; i < spec.size(); ++i) {
    SCOPED_TRACE(spec[i].name);
    EXPECT_EQ(spec[i].name, schema[i].name);
    EXPECT_EQ(spec[i].shape, schema[i].shape);
    EXPECT_EQ(spec[i].optional, schema[i].optional);
    const std::string_view dtype = spec[i].dtype.empty() ? default_dtype : spec[i].dtype;
    EXPECT_EQ(dtype, dtype_name(schema[i].dtype));
    EXPECT_EQ(spec[i].since, schema[i].since);
  }
}

std::string type_name(AttributeType type) {
  switch (type) {
    case AttributeType::kU32:
      return "u32";
    case AttributeType::kU64:
      return "u64";
    case AttributeType::kF32:
      return "f32";
    case AttributeType::kEnum:
      return "enum";
  }
  return "";
}

double default_of(const SpecAttribute& spec) {
  if (spec.default_value.empty()) return 0;
  for (size_t i = 0; i < spec.values.size(); ++i) {
    if (spec.values[i] == spec.default_value) return static_cast<double>(i);
  }
  return std::stod(spec.default_value);
}

TEST(Specs, ThereIsOneForEachOp) {
  std::set<std::string_view> kinds;
  for (const OpSchema& schema : all_op_schemas()) kinds.insert(schema.kind);
  const auto specs = load_op_specs();
  EXPECT_EQ(specs.size(), kinds.size());
  for (const OpSpec& spec : specs) EXPECT_EQ(kinds.count(spec.name), 1u) << spec.name;
}

TEST(Specs, AgreeWithTheSchemaInSlotsAndAttributes) {
  for (const OpSpec& spec : load_op_specs()) {
    SCOPED_TRACE(spec.name);
    const OpSchema* schema = find_op_schema(spec.name);
    ASSERT_NE(schema, nullptr);
    EXPECT_EQ(spec.version, schema->version);
    EXPECT_FALSE(spec.summary.empty());
    EXPECT_EQ(!spec.body.empty(), schema->composite);
    expect_slots(spec.inputs, schema->inputs, "f32");
    expect_slots(spec.outputs, schema->outputs, "f32");
    expect_slots(spec.weights, schema->weights, "none");
    ASSERT_EQ(spec.attributes.size(), schema->attributes.size());
    for (size_t i = 0; i < spec.attributes.size(); ++i) {
      const SpecAttribute& found = spec.attributes[i];
      const AttributeSchema& expected = schema->attributes[i];
      SCOPED_TRACE(found.name);
      EXPECT_EQ(found.name, expected.name);
      EXPECT_EQ(found.type, type_name(expected.type));
      EXPECT_EQ(found.required, expected.required);
      EXPECT_NE(found.required, !found.default_value.empty());
      EXPECT_EQ(default_of(found), expected.default_value);
      EXPECT_EQ(found.since, expected.since);
      EXPECT_EQ(found.values,
                std::vector<std::string>(expected.enum_names.begin(), expected.enum_names.end()));
    }
  }
}

TEST(Specs, BodiesAreMadeOfPrimitives) {
  for (const OpSpec& spec : load_op_specs()) {
    for (const BodyEntry& entry : spec.body) {
      SCOPED_TRACE(spec.name + ": " + entry.op);
      const OpSchema* schema = find_op_schema(entry.op);
      ASSERT_NE(schema, nullptr);
      EXPECT_FALSE(schema->composite);
      for (const auto& [name, expression] : entry.attributes) {
        EXPECT_NE(find_attribute(*schema, name), nullptr) << name;
      }
      for (const AttributeSchema& attribute : schema->attributes) {
        EXPECT_TRUE(!attribute.required || entry.attributes.count(std::string(attribute.name)))
            << attribute.name;
      }
    }
  }
}

TEST(Specs, EveryCaseHasABound) {
  for (const OpSpec& spec : load_op_specs()) {
    for (const OpCase& c : spec.cases) {
      for (const bp_dtype weights : c.dtypes) {
        for (const bp_dtype kv : c.kv_dtypes) {
          EXPECT_NO_THROW(static_cast<void>(spec.bound(weights, kv))) << spec.name << c.name;
        }
      }
    }
  }
}

TEST(Attributes, DefaultsAreThoseOfTheSchema) {
  const OpSchema& schema = *find_op_schema(BP_OP_ATTENTION);
  const AttributeBuffer buffer = default_attributes(schema);
  const auto* a = reinterpret_cast<const bp_attr_attention*>(buffer.data());
  EXPECT_EQ(a->struct_size, sizeof(bp_attr_attention));
  EXPECT_EQ(a->causal, 1u);
  EXPECT_EQ(a->writes_kv, 1u);
  EXPECT_EQ(a->window, 0u);
}

TEST(Attributes, AnOlderStructGetsDefaultsForItsMissingFields) {
  bp_attr_lm_head older{};
  older.struct_size = offsetof(bp_attr_lm_head, required);
  older.scale = 3;
  older.softcap = 7;  // beyond struct_size
  bp_op op{};
  op.kind = BP_OP_LM_HEAD;
  op.attributes = &older;
  const auto read = attributes_of<bp_attr_lm_head>(op);
  EXPECT_EQ(read.scale, 3);
  EXPECT_EQ(read.softcap, 0);
  op.attributes = nullptr;
  EXPECT_EQ(attributes_of<bp_attr_lm_head>(op).scale, 1);
}

TEST(Attributes, RefuseValuesThatDoNotFit) {
  const OpSchema& schema = *find_op_schema(BP_OP_NORM);
  AttributeBuffer buffer = default_attributes(schema);
  const AttributeSchema& group = *find_attribute(schema, "group");
  const AttributeSchema& kind = *find_attribute(schema, "kind");
  EXPECT_TRUE(set_attribute(group, buffer.data(), 4294967295.0).ok());
  EXPECT_FALSE(set_attribute(group, buffer.data(), 4294967296.0).ok());
  EXPECT_FALSE(set_attribute(group, buffer.data(), -1).ok());
  EXPECT_FALSE(set_attribute(group, buffer.data(), 0.5).ok());
  EXPECT_FALSE(set_attribute(group, buffer.data(), std::stod("nan")).ok());
  EXPECT_FALSE(set_attribute(kind, buffer.data(), 2).ok());
  EXPECT_TRUE(set_attribute(kind, buffer.data(), "layer").ok());
  EXPECT_EQ(get_attribute(kind, buffer.data()), BP_NORM_LAYER);
  const Status unknown = set_attribute(kind, buffer.data(), "batch");
  EXPECT_EQ(unknown.message(), "attribute kind: \"batch\" is unknown; expected rms, layer");
}

}  // namespace
}  // namespace bp::test

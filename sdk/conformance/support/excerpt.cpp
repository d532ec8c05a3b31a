#include "sdk/conformance/support/excerpt.hpp"

namespace bp::conformance {

Excerpt::Excerpt(const ProgramView& whole) : whole_(whole), ids_(builder_.add_ids()) {
  for (const bp_kv_group& group : whole.kv_groups()) builder_.add_kv_group(group.window);
  for (const bp_kv_slot& slot : whole.kv_slots()) builder_.add_kv_slot(slot);
}

uint32_t Excerpt::map(uint32_t value) {
  if (value == BP_NONE) return BP_NONE;
  const auto known = values_.find(value);
  if (known != values_.end()) return known->second;
  const bp_value& original = whole_.values()[value];
  return values_[value] =
             original.dtype == BP_DTYPE_I32 ? ids_ : builder_.add_value(original.width);
}

void Excerpt::feed(uint32_t value, const std::vector<float>& rows) {
  const uint64_t width = whole_.values()[value].width;
  const uint32_t table = builder_.add_weight("rows of value " + std::to_string(value), BP_DTYPE_F32,
                                             {rows.size() / width, width}, rows);
  builder_.add_op(BP_OP_GATHER, {ids_}, {map(value)}, {table});
}

uint32_t Excerpt::import_weight(uint32_t weight) {
  if (weight == BP_NONE) return BP_NONE;
  const auto known = weights_.find(weight);
  if (known != weights_.end()) return known->second;
  const bp_weight& original = whole_.weights()[weight];
  const bp_weight_part& part = *data_part(original);
  const auto* bytes = static_cast<const uint8_t*>(part.data);
  return weights_[weight] = builder_.add_encoded_weight(original.name, part.dtype, dims_of(part),
                                                        {bytes, bytes + part.n_bytes});
}

void Excerpt::add(uint32_t op) {
  const bp_op& original = whole_.ops()[op];
  const OpSchema* schema = find_op_schema(kind_of(original));
  std::vector<uint32_t> inputs, outputs, weights;
  for (const uint32_t value : input_slots(original)) inputs.push_back(map(value));
  for (const uint32_t value : output_slots(original)) outputs.push_back(map(value));
  for (const uint32_t weight : weight_slots(original)) weights.push_back(import_weight(weight));
  const uint32_t added = builder_.add_op(
      original.kind, inputs, outputs, weights,
      schema == nullptr ? AttributeBuffer() : read_attributes(*schema, original.attributes));
  builder_.name_op(added, original.name);
}

}  // namespace bp::conformance

#pragma once
// Small programs for tests. Owns all that the program points to.

#include <cstring>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/op_attributes.hpp"
#include "backplane/plugin.hpp"
#include "backplane/program.h"
#include "backplane/reference/encode.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

class ProgramBuilder {
 public:
  uint32_t add_value(uint64_t width, uint32_t rows = BP_ROWS_TOKENS, uint32_t output = 0) {
    is_built_ = false;
    values_.push_back({rows, output, BP_DTYPE_F32, 0, width});
    return static_cast<uint32_t>(values_.size() - 1);
  }
  uint32_t add_ids() {
    is_built_ = false;
    values_.push_back({BP_ROWS_TOKENS, 0, BP_DTYPE_I32, 0, 1});
    inputs_.push_back(static_cast<uint32_t>(values_.size() - 1));
    return inputs_.back();
  }

  // Encodes the values; the last of dims is that of a row.
  uint32_t add_weight(const std::string& name, bp_dtype dtype, const std::vector<uint64_t>& dims,
                      const std::vector<float>& values) {
    const uint64_t width = dims.back(), stride = row_bytes(dtype, width);
    std::vector<uint8_t> bytes(values.size() / width * stride);
    for (uint64_t i = 0; i < values.size() / width; ++i) {
      const Status status =
          reference::encode_row(dtype, values.data() + i * width, width, bytes.data() + i * stride);
      if (!status.ok()) throw std::runtime_error(status.message());
    }
    return add_encoded_weight(name, dtype, dims, bytes);
  }
  // Rows without gaps.
  uint32_t add_encoded_weight(const std::string& name, bp_dtype dtype,
                              const std::vector<uint64_t>& dims,
                              const std::vector<uint8_t>& bytes) {
    is_built_ = false;
    StoredWeight& stored = weights_.emplace_back();
    stored.name = name;
    stored.bytes.resize((bytes.size() + 15) / 16 * 2);
    if (!bytes.empty()) std::memcpy(stored.bytes.data(), bytes.data(), bytes.size());
    stored.part = {};
    stored.part.role = BP_PART_DATA;
    stored.part.dtype = dtype;
    stored.part.n_dims = static_cast<uint32_t>(dims.size());
    stored.part.file = BP_NONE;
    for (size_t d = 0; d < dims.size(); ++d) stored.part.dims[d] = dims[d];
    stored.part.row_stride_bytes = row_bytes(dtype, dims.back());
    stored.part.n_bytes = bytes.size();
    stored.part.data = stored.bytes.data();
    stored.weight = make_growable<bp_weight>();
    stored.weight.n_parts = 1;
    stored.weight.name = stored.name.c_str();
    stored.weight.parts = &stored.part;
    return static_cast<uint32_t>(weights_.size() - 1);
  }

  // Puts gap_bytes between the rows of a weight, which are NaN to whoever reads them as floats or
  // scales; the last row ends with its last value.
  void spread_rows(uint32_t weight, uint64_t gap_bytes) {
    is_built_ = false;
    StoredWeight& stored = weights_[weight];
    const uint64_t row = stored.part.row_stride_bytes, n_rows = stored.part.n_bytes / row;
    const std::vector<uint64_t> dense = std::move(stored.bytes);
    stored.part.row_stride_bytes = row + gap_bytes;
    stored.part.n_bytes = (n_rows - 1) * stored.part.row_stride_bytes + row;
    stored.bytes.assign((stored.part.n_bytes + 15) / 16 * 2, ~uint64_t{0});
    stored.part.data = stored.bytes.data();
    for (uint64_t r = 0; r < n_rows; ++r) {
      std::memcpy(reinterpret_cast<uint8_t*>(stored.bytes.data()) + r * (row + gap_bytes),
                  reinterpret_cast<const uint8_t*>(dense.data()) + r * row, row);
    }
  }

  template <class A>
  static AttributeBuffer attributes(A value) {
    value.struct_size = sizeof(A);
    AttributeBuffer buffer((sizeof(A) + 7) / 8);
    std::memcpy(buffer.data(), &value, sizeof(A));
    return buffer;
  }

  uint32_t add_op(const std::string& kind, std::vector<uint32_t> inputs,
                  std::vector<uint32_t> outputs, std::vector<uint32_t> weights = {},
                  AttributeBuffer attributes = {}) {
    is_built_ = false;
    StoredOp& stored = ops_.emplace_back();
    stored.kind = kind;
    stored.name = "op." + std::to_string(ops_.size() - 1);
    stored.inputs = std::move(inputs);
    stored.outputs = std::move(outputs);
    stored.weights = std::move(weights);
    stored.attributes = std::move(attributes);
    return static_cast<uint32_t>(ops_.size() - 1);
  }

  // The rows of a table [n_ids, width] that ids choose, which are an input of their own.
  uint32_t add_table_rows(uint64_t width, const std::vector<float>& table) {
    const uint32_t rows = add_value(width);
    const uint32_t weight = add_weight("table", BP_DTYPE_F32, {table.size() / width, width}, table);
    bp_attr_embed embed{};
    embed.scale = 1;
    add_op(BP_OP_EMBED, {add_ids()}, {rows}, {weight}, attributes(embed));
    return rows;
  }

  void name_op(uint32_t op, std::string name) {
    is_built_ = false;
    ops_[op].name = std::move(name);
  }
  [[nodiscard]] const std::string& op_name(uint32_t op) const { return ops_[op].name; }
  [[nodiscard]] const std::string& op_kind(uint32_t op) const { return ops_[op].kind; }

  // A program output of the rows that the batch asks of `value`.
  uint32_t add_selected_output(uint32_t value) {
    const auto output = static_cast<uint32_t>(outputs_.size());
    const uint32_t selected = add_value(values_[value].width, BP_ROWS_OUTPUT, output);
    add_op(BP_OP_SELECT_ROWS, {value}, {selected});
    outputs_.push_back(selected);
    return output;
  }
  uint32_t add_output(uint32_t value) {
    is_built_ = false;
    outputs_.push_back(value);
    return static_cast<uint32_t>(outputs_.size() - 1);
  }
  uint32_t n_outputs() const { return static_cast<uint32_t>(outputs_.size()); }

  uint32_t add_kv_group(uint32_t window = 0) {
    is_built_ = false;
    kv_groups_.push_back({window, 0});
    return static_cast<uint32_t>(kv_groups_.size() - 1);
  }
  uint32_t add_kv_slot(bp_kv_slot slot) {
    is_built_ = false;
    kv_slots_.push_back(slot);
    return static_cast<uint32_t>(kv_slots_.size() - 1);
  }

  uint32_t add_state_slot(uint64_t n_floats) {
    is_built_ = false;
    state_slots_.push_back({n_floats});
    return static_cast<uint32_t>(state_slots_.size() - 1);
  }

  [[nodiscard]] bp_value& value(uint32_t index) {
    is_built_ = false;
    return values_[index];
  }
  [[nodiscard]] bp_weight_part& weight_part(uint32_t index) {
    is_built_ = false;
    return weights_[index].part;
  }
  [[nodiscard]] std::vector<uint32_t> weight_checksums() const {
    std::vector<uint32_t> sums;
    for (const StoredWeight& stored : weights_) {
      sums.push_back(seed_of({reinterpret_cast<const char*>(stored.bytes.data()),
                              stored.bytes.size() * sizeof(uint64_t)}));
    }
    return sums;
  }
  [[nodiscard]] const std::string& weight_name(uint32_t index) const {
    return weights_[index].name;
  }
  // What a test sets of an op: its version and required bits.
  [[nodiscard]] bp_op& op(uint32_t index) {
    is_built_ = false;
    return ops_[index].overrides;
  }

  // Valid until the builder is changed. Once built, any thread may ask for it.
  const bp_program& build() {
    if (is_built_) return program_;
    is_built_ = true;
    weight_table_.clear();
    op_table_.clear();
    for (StoredWeight& stored : weights_) weight_table_.push_back(&stored.weight);
    for (StoredOp& stored : ops_) op_table_.push_back(finish(stored));
    program_ = make_growable<bp_program>();
    program_.n_values = static_cast<uint32_t>(values_.size());
    program_.n_weights = static_cast<uint32_t>(weight_table_.size());
    program_.n_ops = static_cast<uint32_t>(op_table_.size());
    program_.n_inputs = static_cast<uint32_t>(inputs_.size());
    program_.n_outputs = static_cast<uint32_t>(outputs_.size());
    program_.n_kv_slots = static_cast<uint32_t>(kv_slots_.size());
    program_.n_kv_groups = static_cast<uint32_t>(kv_groups_.size());
    program_.n_state_slots = static_cast<uint32_t>(state_slots_.size());
    program_.values = values_.data();
    program_.weights = weight_table_.data();
    program_.ops = op_table_.data();
    program_.inputs = inputs_.data();
    program_.outputs = outputs_.data();
    program_.kv_slots = kv_slots_.data();
    program_.kv_groups = kv_groups_.data();
    program_.state_slots = state_slots_.data();
    return program_;
  }

 private:
  struct StoredWeight {
    std::string name;
    std::vector<uint64_t> bytes;
    bp_weight_part part;
    bp_weight weight;
  };
  struct StoredOp {
    std::string kind, name;
    std::vector<uint32_t> inputs, outputs, weights;
    AttributeBuffer attributes;
    bp_op op{};
    bp_op overrides{};  // version and required bits that a test sets
  };

  static uint32_t version_of(const StoredOp& stored) {
    const OpSchema* schema = find_op_schema(stored.kind);
    if (schema == nullptr) return 1;
    return version_needed(*schema, stored.weights,
                          stored.attributes.empty() ? nullptr : stored.attributes.data());
  }
  // Slots of later versions that are absent count as unknown.
  static uint32_t n_weights(const StoredOp& stored) {
    const auto n = static_cast<uint32_t>(stored.weights.size());
    const OpSchema* schema = find_op_schema(stored.kind);
    if (schema == nullptr || n != schema->weights.size()) return n;
    return weights_known(*schema, version_of(stored));
  }
  static const bp_op* finish(StoredOp& stored) {
    stored.op = make_growable<bp_op>();
    stored.op.version =
        stored.overrides.version == 0 ? version_of(stored) : stored.overrides.version;
    stored.op.required = stored.overrides.required;
    stored.op.kind = stored.kind.c_str();
    stored.op.name = stored.name.c_str();
    stored.op.n_inputs = static_cast<uint32_t>(stored.inputs.size());
    stored.op.n_outputs = static_cast<uint32_t>(stored.outputs.size());
    stored.op.n_weights = n_weights(stored);
    stored.op.inputs = stored.inputs.data();
    stored.op.outputs = stored.outputs.data();
    stored.op.weights = stored.weights.data();
    stored.op.attributes = stored.attributes.empty() ? nullptr : stored.attributes.data();
    return &stored.op;
  }

  std::vector<bp_value> values_;
  std::deque<StoredWeight> weights_;
  std::deque<StoredOp> ops_;
  std::vector<uint32_t> inputs_, outputs_;
  std::vector<bp_kv_slot> kv_slots_;
  std::vector<bp_kv_group> kv_groups_;
  std::vector<bp_state_slot> state_slots_;
  std::vector<const bp_weight*> weight_table_;
  std::vector<const bp_op*> op_table_;
  bp_program program_{};
  bool is_built_ = false;
};

}  // namespace bp::conformance

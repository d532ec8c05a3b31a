#pragma once
// A program with its growable structs copied into this build's versions.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/op_attributes.hpp"
#include "backplane/op_schema.hpp"
#include "backplane/op_shapes.hpp"
#include "backplane/plugin.hpp"
#include "backplane/program.h"

namespace bp {

// Refers to the program, which outlives it.
class ProgramView {
 public:
  explicit ProgramView(const bp_program& program) : header_(copy_growable(&program)) {
    ops_.reserve(header_.n_ops);
    for (uint32_t i = 0; i < header_.n_ops; ++i) ops_.push_back(copy_growable(header_.ops[i]));
    weights_.reserve(header_.n_weights);
    for (uint32_t i = 0; i < header_.n_weights; ++i) {
      weights_.push_back(copy_growable(header_.weights[i]));
    }
  }

  [[nodiscard]] const bp_program& header() const { return header_; }
  [[nodiscard]] std::span<const bp_op> ops() const { return ops_; }
  [[nodiscard]] std::span<const bp_weight> weights() const { return weights_; }
  [[nodiscard]] std::span<const bp_value> values() const {
    return {header_.values, header_.n_values};
  }
  [[nodiscard]] std::span<const uint32_t> inputs() const {
    return {header_.inputs, header_.n_inputs};
  }
  [[nodiscard]] std::span<const uint32_t> outputs() const {
    return {header_.outputs, header_.n_outputs};
  }
  [[nodiscard]] std::span<const bp_kv_slot> kv_slots() const {
    return {header_.kv_slots, header_.n_kv_slots};
  }
  [[nodiscard]] std::span<const bp_kv_group> kv_groups() const {
    return {header_.kv_groups, header_.n_kv_groups};
  }
  [[nodiscard]] std::span<const bp_state_slot> state_slots() const {
    return {header_.state_slots, header_.n_state_slots};
  }
  // KV groups, and one more where there are state slots (backend.h).
  [[nodiscard]] uint32_t n_groups() const {
    return header_.n_kv_groups + (header_.n_state_slots > 0 ? 1 : 0);
  }

 private:
  bp_program header_;
  std::vector<bp_op> ops_;
  std::vector<bp_weight> weights_;
};

[[nodiscard]] inline std::span<const uint32_t> input_slots(const bp_op& op) {
  return {op.inputs, op.n_inputs};
}
[[nodiscard]] inline std::span<const uint32_t> output_slots(const bp_op& op) {
  return {op.outputs, op.n_outputs};
}
[[nodiscard]] inline std::span<const uint32_t> weight_slots(const bp_op& op) {
  return {op.weights, op.n_weights};
}
// The index in a slot, BP_NONE for an absent one; lists may leave out absent slots at their end.
[[nodiscard]] inline uint32_t slot_at(std::span<const uint32_t> slots, size_t i) {
  return i < slots.size() ? slots[i] : BP_NONE;
}

[[nodiscard]] inline std::string_view kind_of(const bp_op& op) {
  return op.kind == nullptr ? "" : op.kind;
}
// op "layers.3.mlp" (gated_mlp)
[[nodiscard]] inline std::string describe(const bp_op& op) {
  return "op \"" + std::string(op.name == nullptr ? "" : op.name) + "\" (" +
         std::string(kind_of(op)) + ")";
}
[[nodiscard]] inline std::string weight_name(const bp_weight& weight) {
  return "\"" + std::string(weight.name == nullptr ? "" : weight.name) + "\"";
}

// The part that holds the values, or nullptr.
[[nodiscard]] inline const bp_weight_part* data_part(const bp_weight& weight) {
  for (uint32_t i = 0; i < weight.n_parts; ++i) {
    if (weight.parts[i].role == BP_PART_DATA) return &weight.parts[i];
  }
  return nullptr;
}
[[nodiscard]] inline std::vector<uint64_t> dims_of(const bp_weight_part& part) {
  return {part.dims, part.dims + part.n_dims};
}

// Precondition: indices are in range, and weights have a data part.
[[nodiscard]] inline OpShapes shapes_of(const ProgramView& program, const bp_op& op) {
  OpShapes shapes;
  const auto width = [&](uint32_t value) -> std::optional<uint64_t> {
    if (value == BP_NONE) return std::nullopt;
    return program.values()[value].width;
  };
  for (const uint32_t value : input_slots(op)) shapes.inputs.push_back(width(value));
  for (const uint32_t value : output_slots(op)) shapes.outputs.push_back(width(value));
  for (const uint32_t weight : weight_slots(op)) {
    if (weight == BP_NONE) {
      shapes.weights.push_back(std::nullopt);
    } else {
      shapes.weights.push_back(dims_of(*data_part(program.weights()[weight])));
    }
  }
  return shapes;
}

}  // namespace bp

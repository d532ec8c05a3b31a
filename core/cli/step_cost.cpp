#include "core/cli/step_cost.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace bp::cli {

namespace {

double bytes_of(const model::Weight& weight) {
  double bytes = 0;
  for (const bp_weight_part& part : weight.parts) bytes += static_cast<double>(part.n_bytes);
  return bytes;
}

// Share of an op's stacked matrices that a token uses.
double used_share(const model::Op& op, uint64_t n_matrices) {
  const void* attributes = op.attributes.data();
  double n_used = static_cast<double>(n_matrices);
  if (op.schema->kind == BP_OP_MOE) n_used = static_cast<const bp_attr_moe*>(attributes)->n_used;
  if (op.schema->kind == BP_OP_GROUP_MATMUL) {
    n_used = static_cast<const bp_attr_group_matmul*>(attributes)->n_groups;
  }
  return std::min(n_used / static_cast<double>(n_matrices), 1.0);
}

}  // namespace

double StepCost::Weights::bytes_of_step(uint32_t n_tokens) const {
  return bytes * (1 - std::pow(1 - used, n_tokens));
}

double StepCost::Kv::bytes_at(double context) const {
  return bytes * (window == 0 ? context : std::min<double>(context, window));
}

StepCost::StepCost(const runtime::CompiledModel& compiled,
                   const std::optional<bp_memory_plan>& plan) {
  const model::ProgramParts& program = compiled.parts->program.parts();
  add_weights(program);
  double file_bytes = 0;
  for (const model::Weight& weight : program.weights) file_bytes += bytes_of(weight);
  if (plan) scale_to_plan(*plan, file_bytes);
  const bp_memory_info& memory = compiled.memory;
  for (uint32_t g = 0; g < memory.n_groups; ++g) {
    const uint64_t packed = memory.packed_block_bytes[g];
    const auto bytes = static_cast<double>(packed != 0 ? packed : memory.block_bytes[g]);
    kv_.push_back({bytes / memory.block_size, program.kv_groups[g].window});
  }
  state_bytes_ = 2 * static_cast<double>(compiled.state_bytes);
}

void StepCost::add_weights(const model::ProgramParts& program) {
  std::set<uint32_t> read;
  for (const model::Op& op : program.ops) {
    if (op.schema->kind == BP_OP_EMBED) continue;
    for (const uint32_t index : op.weights) {
      if (index == BP_NONE || !read.insert(index).second) continue;
      const model::Weight& weight = program.weights[index];
      const auto dims = weight.dims();
      Weights& of_weight = weights_.emplace_back();
      of_weight.bytes = bytes_of(weight);
      if (dims.size() == 3) of_weight.used = used_share(op, dims[0]);
      if (dims.size() < 2) continue;
      double elements = of_weight.used;
      for (const uint64_t dim : dims) elements *= static_cast<double>(dim);
      (op.schema->kind == BP_OP_LM_HEAD ? head_operations_ : operations_) += 2 * elements;
    }
  }
}

// As the backend keeps them, which may be in fewer bytes than the file: what it keeps at all tells,
// and that the rest, which no step reads whole, stays as it is.
void StepCost::scale_to_plan(const bp_memory_plan& plan, double file_bytes) {
  const bp_weights_mode& mode = plan.modes[plan.chosen];
  const auto kept = static_cast<double>(mode.own_bytes + mode.mapped_bytes);
  double read_bytes = 0;
  for (const Weights& weight : weights_) read_bytes += weight.bytes;
  const double kept_of_read = kept - (file_bytes - read_bytes);
  if (kept_of_read <= 0) return;
  for (Weights& weight : weights_) weight.bytes *= kept_of_read / read_bytes;
}

double StepCost::decode_bytes(uint32_t n_sequences, double context) const {
  double of_sequence = state_bytes_;
  for (const Kv& kv : kv_) of_sequence += kv.bytes_at(context);
  double bytes = n_sequences * of_sequence;
  for (const Weights& weight : weights_) bytes += weight.bytes_of_step(n_sequences);
  return bytes;
}

}  // namespace bp::cli

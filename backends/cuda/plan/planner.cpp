#include "backends/cuda/plan/planner.hpp"

#include <algorithm>

#include "backplane/ops.h"

namespace bp::cuda {

Planner::Planner(const ProgramView& program, WeightStore& store, const DeviceInfo& device,
                 const StepShape& most)
    : program_(program),
      store_(store),
      device_(device),
      most_(most),
      buffer_of_value_(program.values().size(), BP_NONE),
      head_chains_(program) {
  for (uint32_t i = 0; i < program.values().size(); ++i) {
    const bp_value& value = program.values()[i];
    if (value.dtype != BP_DTYPE_F32) continue;
    buffer_of_value_[i] = static_cast<uint32_t>(plan_.buffers.size());
    plan_.buffers.push_back({value.rows, value.output, static_cast<uint32_t>(value.width)});
  }
}

Result<Plan> Planner::run() {
  for (const bp_op& op : program_.ops()) BP_TRY(plan_op(op).with_context(describe(op)));
  for (const uint32_t value : program_.outputs()) {
    const uint32_t buffer = buffer_of_value_[value];
    plan_.buffers[buffer].last_stage = ~0u;  // copied to the host after the last stage
    plan_.outputs.push_back(buffer);
  }
  std::ranges::sort(plan_.weights);
  plan_.weights.erase(std::unique(plan_.weights.begin(), plan_.weights.end()), plan_.weights.end());
  return std::move(plan_);
}

Status Planner::plan_op(const bp_op& op) {
  op_ = &op;
  used_.clear();
  scratch_.clear();
  const PlanOp plan = find_plan_op(kind_of(op));
  return plan == nullptr ? unsupported("this kind of op is unknown") : plan(*this);
}

bool Planner::has_input(uint32_t i) const {
  return slot_at(input_slots(*op_), i) != BP_NONE;
}
bool Planner::has_output(uint32_t i) const {
  return slot_at(output_slots(*op_), i) != BP_NONE;
}
bool Planner::has_weight(uint32_t i) const {
  return slot_at(weight_slots(*op_), i) != BP_NONE;
}

uint32_t Planner::use(uint32_t buffer) {
  used_.push_back(buffer);
  return buffer;
}

uint32_t Planner::input(uint32_t i) {
  return use(buffer_of_value_[op_->inputs[i]]);
}
uint32_t Planner::output(uint32_t i) {
  return use(buffer_of_value_[op_->outputs[i]]);
}

uint32_t Planner::temporary(uint32_t rows_as_buffer, uint32_t width) {
  const Buffer& like = plan_.buffers[rows_as_buffer];
  plan_.buffers.push_back({like.rows, like.output, width});
  return use(static_cast<uint32_t>(plan_.buffers.size() - 1));
}

uint32_t Planner::own_bytes(uint64_t n_bytes) {
  plan_.buffers.emplace_back().own_bytes = n_bytes;
  return use(static_cast<uint32_t>(plan_.buffers.size() - 1));
}

uint32_t Planner::scratch(Purpose purpose, uint64_t n_bytes) {
  if (n_bytes == 0) return kNoBuffer;
  uint32_t& made = scratch_.try_emplace(purpose, kNoBuffer).first->second;
  if (made == kNoBuffer) {
    made = static_cast<uint32_t>(plan_.buffers.size());
    plan_.buffers.emplace_back();
  }
  uint64_t& own_bytes = plan_.buffers[made].own_bytes;
  own_bytes = std::max(own_bytes, n_bytes);
  return use(made);
}

uint32_t Planner::made_of(uint32_t buffer, uint64_t key) {
  const auto made = made_.find({buffer, key});
  return made == made_.end() ? kNoBuffer : use(made->second);
}

const bp_weight_part* Planner::matrix_of_consumer(uint32_t buffer) const {
  for (const bp_op* op = op_ + 1; op < program_.ops().data() + program_.ops().size(); ++op) {
    const auto inputs = input_slots(*op);
    if (inputs.empty() || inputs[0] == BP_NONE || buffer_of_value_[inputs[0]] != buffer) continue;
    const std::string_view kind = kind_of(*op);
    const bool multiplies = kind == BP_OP_MATMUL || kind == BP_OP_LINEAR || kind == BP_OP_QKV ||
                            kind == BP_OP_GATED_MLP || kind == BP_OP_LM_HEAD;
    return multiplies ? data_part(program_.weights()[op->weights[0]]) : nullptr;
  }
  return nullptr;
}

bool Planner::is_read_later(uint32_t buffer) const {
  for (const bp_op* op = op_ + 1; op < program_.ops().data() + program_.ops().size(); ++op) {
    for (const uint32_t input : input_slots(*op)) {
      if (input != BP_NONE && buffer_of_value_[input] == buffer) return true;
    }
  }
  return false;
}

const HeadChain* Planner::head_chain() const {
  return head_chains_.of(*op_);
}

const DeviceWeight* Planner::weight(const bp_op& op, uint32_t i, bool as_floats) {
  const uint32_t weight = slot_at(weight_slots(op), i);
  if (weight == BP_NONE) return nullptr;
  const bp_weight_part& part = *data_part(program_.weights()[weight]);
  plan_.weights.push_back(store_.get(SourceRows::of(part, as_floats)));
  return plan_.weights.back().get();
}

const DeviceWeight* Planner::matrix(uint32_t i) {
  return weight(*op_, i, false);
}
const DeviceWeight* Planner::floats(uint32_t i) {
  return weight(*op_, i, true);
}
const DeviceWeight* Planner::floats(const bp_op& op, uint32_t i) {
  return weight(op, i, true);
}

void Planner::add(Enqueue enqueue) {
  const auto stage = static_cast<uint32_t>(plan_.stages.size());
  for (const uint32_t buffer : used_) {
    Buffer& b = plan_.buffers[buffer];
    b.first_stage = std::min(b.first_stage, stage);
    b.last_stage = std::max(b.last_stage, stage);
  }
  plan_.stages.push_back({describe(*op_), std::move(enqueue)});
}

}  // namespace bp::cuda

#include <cstring>

#include "backends/cpu/plan/planner.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::cpu {

RowCount Planner::count_of(uint32_t index) const {
  return {value(index).rows, value(index).output};
}

uint32_t Planner::add_buffer(RowCount count, uint32_t width) {
  plan_.buffers.push_back({count, width});
  return static_cast<uint32_t>(plan_.buffers.size() - 1);
}

std::shared_ptr<const PreparedWeight> Planner::add_weight(const WeightRows& rows, bool is_chosen) {
  plan_.weights.push_back(weights_.get(rows, prepare_));
  plan_.weight_stages.push_back(static_cast<uint32_t>(plan_.stages.size()));
  plan_.weight_last_stages.push_back(plan_.weight_stages.back());
  plan_.weight_is_chosen.push_back(is_chosen);
  return plan_.weights.back();
}

void Planner::open(uint32_t index) {
  buffers_[index] = add_buffer(count_of(index), static_cast<uint32_t>(value(index).width));
}

RowStage& Planner::add_rows(RowCount count, std::vector<uint32_t> reads,
                            std::vector<uint32_t> writes, RowStage::Function function) {
  auto& stage = add_stage<RowStage>(count, std::move(function));
  stage.reads = std::move(reads);
  stage.writes = std::move(writes);
  return stage;
}

uint32_t Planner::buffer_of(uint32_t index) {
  if (buffers_[index]) return *buffers_[index];
  open(index);
  const uint32_t out = *buffers_[index];
  const auto held = held_rows_.find(index);
  const RowSource source = held->second;
  held_rows_.erase(held);
  store_rows(source, out);
  return out;
}

void Planner::store_rows(const RowSource& source, uint32_t out) {
  add_rows(source.count, {source.buffer}, {out}, [=](const StepContext& step, uint32_t r) {
    float* y = step.values[out].row(r);
    if (source.norm) {
      normalize_row(*step.kernels, *source.norm, source.row(step, r), source.width, y);
    } else {
      std::memcpy(y, source.row(step, r), source.width * sizeof(float));
    }
  });
}

RowSource Planner::take_rows(uint32_t index) {
  if (const auto held = held_rows_.find(index); held != held_rows_.end()) {
    const RowSource source = held->second;
    held_rows_.erase(held);
    return source;
  }
  RowSource source;
  source.buffer = buffer_of(index);
  source.width = static_cast<uint32_t>(value(index).width);
  source.count = count_of(index);
  return source;
}

std::optional<uint32_t> Planner::only_consumer(uint32_t index) const {
  const std::vector<uint32_t>& ops = uses_[index].ops;
  if (ops.size() != 1 || ops[0] == BP_NONE) return std::nullopt;
  return ops[0];
}

bool Planner::feeds_product(uint32_t index) const {
  const auto consumer = only_consumer(index);
  if (!consumer) return false;
  const std::string_view kind = kind_of(program_.ops()[*consumer]);
  return kind == BP_OP_QKV || kind == BP_OP_LINEAR || kind == BP_OP_MATMUL ||
         kind == BP_OP_GATED_MLP || kind == BP_OP_LM_HEAD || kind == BP_OP_MOE;
}

const float* Planner::decode_vector(uint32_t weight) {
  const auto [entry, is_new] = vectors_.emplace(weight, nullptr);
  if (!is_new) return entry->second;
  const WeightRows rows = WeightRows::of(program_.weights()[weight]);
  auto floats = std::make_unique<std::vector<float>>(size_t{rows.n_rows} * rows.n_columns);
  for (uint32_t r = 0; r < rows.n_rows; ++r) {
    // Validation has seen a known type and whole blocks.
    static_cast<void>(reference::decode_row(rows.dtype, rows.row(r), rows.n_columns,
                                            floats->data() + size_t{r} * rows.n_columns));
  }
  entry->second = floats->data();
  plan_.vectors.push_back(std::move(floats));
  return entry->second;
}

const float* Planner::vector(const bp_op& op, uint32_t slot) {
  const uint32_t weight = slot_at(weight_slots(op), slot);
  return weight == BP_NONE ? nullptr : decode_vector(weight);
}

}  // namespace bp::cpu

#include "backends/cpu/stages/short_conv_stage.hpp"

#include <algorithm>

#include "backplane/ops.h"

namespace bp::cpu {

namespace {

constexpr uint32_t kColumns = 512;  // of an item; with their weights they stay in the first cache

}  // namespace

uint32_t ShortConvStage::n_parts(uint32_t width) {
  return (width + kColumns - 1) / kColumns;
}

PhaseItems ShortConvStage::items(const StepContext& step, uint32_t phase) const {
  return {phase == 0 ? step.batch->n_seqs * n_parts(spec_.width) : 0};
}

void ShortConvStage::run(const StepContext& step, const Worker& worker, uint32_t,
                         Items& items) const {
  auto** rows = reinterpret_cast<const float**>(worker.scratch);
  const uint32_t n = n_parts(spec_.width);
  for (uint32_t i; (i = items.next()) != WorkShares::kNone;) {
    const uint32_t first = i % n * kColumns;
    run_columns(step, i / n, {first, std::min(first + kColumns, spec_.width)}, rows);
  }
}

void ShortConvStage::run_columns(const StepContext& step, uint32_t sequence, Range columns,
                                 const float** rows) const {
  const bp_batch& batch = *step.batch;
  const uint32_t begin = batch.query_start[sequence];
  const uint32_t n_tokens = batch.query_start[sequence + 1] - begin;
  const uint32_t n_before = spec_.kernel - 1, n = columns.end - columns.begin;
  const auto x = [&](uint32_t t) { return step.values[spec_.in].row(begin + t) + columns.begin; };
  const auto y = [&](uint32_t t) { return step.values[spec_.out].row(begin + t) + columns.begin; };
  if (step.running[sequence] == 0) {
    for (uint32_t t = 0; t < n_tokens; ++t) std::fill_n(y(t), n, 0.0f);
    return;
  }
  const int32_t in = batch.state_in[sequence], out = batch.state_out[sequence];
  float* state = step.states->entry(spec_.state_slot, out) + columns.begin;
  const auto kept = [&](uint32_t r) { return state + r * state_stride(); };
  for (uint32_t r = 0; r < n_before && in != out; ++r) {
    if (in == 0) {
      std::fill_n(kept(r), n, 0.0f);
    } else {
      const float* from = step.states->entry(spec_.state_slot, in) + columns.begin;
      std::copy_n(from + r * state_stride(), n, kept(r));
    }
  }
  const float* bias = spec_.bias == nullptr ? nullptr : spec_.bias + columns.begin;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    for (uint32_t j = 0; j < spec_.kernel; ++j) {
      rows[j] = t + j < n_before ? kept(t + j) : x(t + j - n_before);
    }
    step.kernels->convolve(rows, spec_.weights + columns.begin, spec_.width, spec_.kernel, bias,
                           y(t), n);
    if (spec_.activation != BP_ACT_NONE) step.kernels->activate(spec_.activation, y(t), y(t), n);
  }
  for (uint32_t r = 0; r < n_before && n_tokens > 0; ++r) {
    const uint32_t from = r + n_tokens;
    std::copy_n(from < n_before ? kept(from) : x(from - n_before), n, kept(r));
  }
}

}  // namespace bp::cpu

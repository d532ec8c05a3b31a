#include "backends/cpu/stages/gated_delta_stage.hpp"

#include <algorithm>
#include <cmath>

namespace bp::cpu {

namespace {

// Of an item: 32 KB of state where key_dim is 128.
constexpr uint32_t kColumns = 64;

float softplus(float x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

// y = x * factor / sqrt(|x|^2 + eps)
void normalise(const Kernels& kernels, const float* x, uint32_t n, float eps, float factor,
               float* y) {
  const float squares = kernels.sum_of_squared_differences(x, 0, n);
  kernels.scale(x, factor / std::sqrt(squares + eps), y, n);
}

}  // namespace

uint32_t GatedDeltaStage::n_parts(uint32_t value_dim) {
  return (value_dim + kColumns - 1) / kColumns;
}

PhaseItems GatedDeltaStage::items(const StepContext& step, uint32_t phase) const {
  return {phase == 0 ? step.batch->n_seqs * spec_.n_heads * n_parts(spec_.value_dim) : 0};
}

void GatedDeltaStage::run(const StepContext& step, const Worker& worker, uint32_t,
                          Items& items) const {
  auto* scratch = reinterpret_cast<float*>(worker.scratch);
  const uint32_t n = n_parts(spec_.value_dim);
  for (uint32_t i; (i = items.next()) != WorkShares::kNone;) {
    const uint32_t first = i % n * kColumns, of_head = i / n;
    const Range columns = {first, std::min(first + kColumns, spec_.value_dim)};
    run_columns(step, of_head / spec_.n_heads, of_head % spec_.n_heads, columns, scratch);
  }
}

void GatedDeltaStage::run_columns(const StepContext& step, uint32_t sequence, uint32_t head,
                                  Range columns, float* scratch) const {
  const uint32_t n_columns = columns.end - columns.begin;
  const uint32_t first = head * spec_.value_dim + columns.begin;
  const uint32_t first_value = 2 * spec_.n_key_heads * spec_.key_dim + first;
  const bool runs = step.running[sequence] != 0;
  float* state = runs ? continued(step, sequence, head, columns) : nullptr;
  const uint32_t* query_start = step.batch->query_start;
  for (uint32_t t = query_start[sequence]; t < query_start[sequence + 1]; ++t) {
    float* o = step.values[spec_.out].row(t) + first;
    if (!runs) {
      std::fill_n(o, n_columns, 0.0f);
      continue;
    }
    const float* v = step.values[spec_.qkv].row(t) + first_value;
    step.kernels->delta_rule(token(step, t, head, scratch), state, state, v, o, n_columns);
  }
}

float* GatedDeltaStage::continued(const StepContext& step, uint32_t sequence, uint32_t head,
                                  Range columns) const {
  const int32_t in = step.batch->state_in[sequence], out = step.batch->state_out[sequence];
  const size_t n_panels = (spec_.value_dim + 15) / 16;
  const size_t at = (head * n_panels + columns.begin / 16) * spec_.key_dim * 16;
  const size_t n = (columns.end - columns.begin + 15) / 16 * size_t{spec_.key_dim} * 16;
  float* state = step.states->entry(spec_.state_slot, out) + at;
  if (in == 0) {
    std::fill_n(state, n, 0.0f);
  } else if (in != out) {
    std::copy_n(step.states->entry(spec_.state_slot, in) + at, n, state);
  }
  return state;
}

DeltaToken GatedDeltaStage::token(const StepContext& step, uint32_t row, uint32_t head,
                                  float* scratch) const {
  const size_t key_head = head / (spec_.n_heads / spec_.n_key_heads);
  const float* q = step.values[spec_.qkv].row(row) + key_head * spec_.key_dim;
  const float* k = q + size_t{spec_.n_key_heads} * spec_.key_dim;
  float *unit_q = scratch, *unit_k = scratch + key_stride();
  normalise(*step.kernels, q, spec_.key_dim, spec_.eps, spec_.scale, unit_q);
  normalise(*step.kernels, k, spec_.key_dim, spec_.eps, 1, unit_k);
  const float dt = spec_.dt_bias == nullptr ? 0 : spec_.dt_bias[head];
  DeltaToken token{};
  token.q = unit_q;
  token.k = unit_k;
  token.key_dim = spec_.key_dim;
  token.k_dot_q = step.kernels->dot(unit_k, unit_q, spec_.key_dim);
  token.decay = std::exp(spec_.decay[head] * softplus(step.values[spec_.a].row(row)[head] + dt));
  token.beta = 1 / (1 + std::exp(-step.values[spec_.b].row(row)[head]));
  return token;
}

}  // namespace bp::cpu

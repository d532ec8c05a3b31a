#include "backends/cpu/rows/head_source.hpp"

#include <cstring>

#include "backplane/ops.h"

namespace bp::cpu {

namespace {

void rotate_pairs(const float* cosines, const float* sines, uint32_t n_pairs, float* x) {
  for (uint32_t i = 0; i < n_pairs; ++i) {
    const float u = x[2 * i];
    const float v = x[2 * i + 1];
    x[2 * i] = u * cosines[i] - v * sines[i];
    x[2 * i + 1] = u * sines[i] + v * cosines[i];
  }
}

}  // namespace

void HeadSource::load(const StepContext& step, uint32_t token, uint32_t head, float* out) const {
  const float* x = raw(step, token, head);
  if (norm) {
    normalize_row(*step.kernels, *norm, x, head_dim, out);
  } else if (x != out) {
    std::memcpy(out, x, head_dim * sizeof(float));
  }
  if (!rotation) return;
  const uint32_t n_pairs = rotation->n_dims / 2;
  const float* cosines = step.values[rotation->table].row(token);
  if (rotation->pairing == BP_ROPE_HALVES) {
    step.kernels->rotate_halves(cosines, cosines + n_pairs, n_pairs, out);
  } else {
    rotate_pairs(cosines, cosines + n_pairs, n_pairs, out);
  }
}

}  // namespace bp::cpu

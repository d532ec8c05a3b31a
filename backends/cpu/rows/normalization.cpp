#include "backends/cpu/rows/normalization.hpp"

#include <cmath>

#include "backplane/ops.h"

namespace bp::cpu {

void normalize_row(const Kernels& kernels, const Normalization& norm, const float* x,
                   uint32_t width, float* y) {
  const uint32_t group = norm.group == 0 ? width : norm.group;
  for (uint32_t first = 0; first < width; first += group) {
    const float* own = x + first;
    const auto n = static_cast<float>(group);
    const float mean = norm.kind == BP_NORM_LAYER ? kernels.sum(own, group) / n : 0;
    const float variance = kernels.sum_of_squared_differences(own, mean, group) / n;
    // A weight as wide as the row has a part for each group, a narrower one serves all.
    const float* weight = norm.weight == nullptr ? nullptr : norm.weight + first % norm.n_weight;
    const float* bias = norm.bias == nullptr ? nullptr : norm.bias + first % norm.n_bias;
    kernels.affine(own, mean, 1.0f / std::sqrt(variance + norm.eps), weight, norm.weight_offset,
                   bias, y + first, group);
  }
}

}  // namespace bp::cpu

#include <cmath>

#include "kernels/kernels.hpp"

namespace bp::reference {

namespace {

void normalize_group(const float* x, uint64_t n, uint32_t kind, double eps, float* y) {
  double mean = 0;
  if (kind == BP_NORM_LAYER) {
    for (uint64_t i = 0; i < n; ++i) mean += x[i];
    mean /= static_cast<double>(n);
  }
  double variance = 0;
  for (uint64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  variance /= static_cast<double>(n);
  const double scale = 1 / std::sqrt(variance + eps);
  for (uint64_t i = 0; i < n; ++i) y[i] = static_cast<float>((x[i] - mean) * scale);
}

}  // namespace

void normalize(const Matrix& x, uint32_t kind, double eps, uint32_t group, const Matrix& y) {
  const uint64_t n = group == 0 ? x.width : group;
  for (uint64_t t = 0; t < x.n_rows; ++t) {
    for (uint64_t first = 0; first < x.width; first += n) {
      normalize_group(x.row(t) + first, n, kind, eps, y.row(t) + first);
    }
  }
}

void scale_and_shift(const Matrix& x, const WeightRows* weight, double offset,
                     const WeightRows* bias, const Matrix& y) {
  const float* w = weight == nullptr ? nullptr : weight->row(0, nullptr);
  const float* b = bias == nullptr ? nullptr : bias->row(0, nullptr);
  for (uint64_t t = 0; t < x.n_rows; ++t) {
    for (uint64_t i = 0; i < x.width; ++i) {
      double value = x.row(t)[i];
      if (w != nullptr) value *= w[i % weight->width()] + offset;
      if (b != nullptr) value += b[i % bias->width()];
      y.row(t)[i] = static_cast<float>(value);
    }
  }
}

}  // namespace bp::reference

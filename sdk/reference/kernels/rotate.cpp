#include <algorithm>
#include <cmath>

#include "kernels/kernels.hpp"

namespace bp::reference {

void rotate(const Rotation& r, const Matrix& x, const int32_t* positions, const float* inv_freq,
            const Matrix& y) {
  const uint32_t n_pairs = r.n_dims / 2;
  const bool halves = r.pairing == BP_ROPE_HALVES;
  for (uint64_t t = 0; t < x.n_rows; ++t) {
    std::copy_n(x.row(t), x.width, y.row(t));
    for (uint32_t i = 0; i < n_pairs; ++i) {
      const double angle = static_cast<double>(positions[t]) * static_cast<double>(inv_freq[i]);
      const double cosine = std::cos(angle) * r.magnitude, sine = std::sin(angle) * r.magnitude;
      const uint32_t a = halves ? i : 2 * i;
      const uint32_t b = halves ? i + n_pairs : 2 * i + 1;
      for (uint64_t head = 0; head < x.width; head += r.head_dim) {
        const double u = x.row(t)[head + a], v = x.row(t)[head + b];
        y.row(t)[head + a] = static_cast<float>(u * cosine - v * sine);
        y.row(t)[head + b] = static_cast<float>(u * sine + v * cosine);
      }
    }
  }
}

}  // namespace bp::reference

#include "backplane/reference/dot.hpp"

#include <algorithm>
#include <cstring>

namespace bp::reference {

namespace {

constexpr uint64_t kLanes = 16;
constexpr uint64_t kChunk = 1024;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

[[gnu::always_inline]] inline double dot_lanes(const float* a, const float* b, uint64_t n) {
  double total = 0;
  const uint64_t n_whole = n / kLanes * kLanes;
  for (uint64_t chunk = 0; chunk < n_whole; chunk += kChunk) {
    const uint64_t end = std::min(chunk + kChunk, n_whole);
    Lanes sums = {};
    for (uint64_t i = chunk; i < end; i += kLanes) {
      Lanes x, y;
      std::memcpy(&x, a + i, sizeof x);
      std::memcpy(&y, b + i, sizeof y);
      sums += x * y;
    }
    for (uint64_t lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sums[lane]);
  }
  for (uint64_t i = n_whole; i < n; ++i) {
    total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return total;
}

double dot_generic(const float* a, const float* b, uint64_t n) {
  return dot_lanes(a, b, n);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) double dot_avx2(const float* a, const float* b, uint64_t n) {
  return dot_lanes(a, b, n);
}
using Dot = double (*)(const float*, const float*, uint64_t);
Dot best_dot() {
  return __builtin_cpu_supports("avx2") ? dot_avx2 : dot_generic;
}
#else
auto best_dot() {
  return dot_generic;
}
#endif

}  // namespace

double dot(const float* a, const float* b, uint64_t n) {
  static const auto best = best_dot();
  return best(a, b, n);
}

}  // namespace bp::reference

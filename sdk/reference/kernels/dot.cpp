#include "backplane/reference/dot.hpp"

#include <algorithm>
#include <cstring>

namespace bp::reference {

namespace {

constexpr uint64_t kLanes = 32;
constexpr uint64_t kFolded = 8;  // lanes whose sums go to double
constexpr uint64_t kChunk = 1024;

// Vector is a float vector that the machine has registers for; its width changes no result.
template <class Vector>
[[gnu::always_inline]] inline double dot_lanes(const float* a, const float* b, uint64_t n) {
  constexpr uint64_t width = sizeof(Vector) / sizeof(float);
  constexpr uint64_t n_vectors = kLanes / width;
  constexpr uint64_t group = kFolded / width;
  double total = 0;
  const uint64_t n_whole = n / kLanes * kLanes;
  for (uint64_t chunk = 0; chunk < n_whole; chunk += kChunk) {
    const uint64_t end = std::min(chunk + kChunk, n_whole);
    Vector sums[n_vectors] = {};
    for (uint64_t i = chunk; i < end; i += kLanes) {
      for (uint64_t v = 0; v < n_vectors; ++v) {
        Vector x, y;
        std::memcpy(&x, a + i + v * width, sizeof x);
        std::memcpy(&y, b + i + v * width, sizeof y);
        sums[v] += x * y;
      }
    }
    for (uint64_t v = 0; v < group; ++v) {
      const Vector folded =
          (sums[v] + sums[v + group]) + (sums[v + 2 * group] + sums[v + 3 * group]);
      for (uint64_t lane = 0; lane < width; ++lane) total += static_cast<double>(folded[lane]);
    }
  }
  for (uint64_t i = n_whole; i < n; ++i) {
    total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return total;
}

typedef float Vector4 __attribute__((vector_size(16)));

#if defined(__x86_64__)
typedef float Vector8 __attribute__((vector_size(32)));

__attribute__((target("avx2"))) double dot_avx2(const float* a, const float* b, uint64_t n) {
  return dot_lanes<Vector8>(a, b, n);
}
bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2") != 0;
  return found;
}
#endif

}  // namespace

double dot_portable(const float* a, const float* b, uint64_t n) {
  return dot_lanes<Vector4>(a, b, n);
}

double dot(const float* a, const float* b, uint64_t n) {
#if defined(__x86_64__)
  if (has_avx2()) return dot_avx2(a, b, n);
#endif
  return dot_portable(a, b, n);
}

}  // namespace bp::reference

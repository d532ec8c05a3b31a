#pragma once

#include <cstdint>

namespace bp::reference {

// Sum of a[i] * b[i]. Products are summed in float in 32 lanes over at most 1024 elements, and
// these sums in double, in the same order on every machine. [any-thread]
[[nodiscard]] double dot(const float* a, const float* b, uint64_t n);

// The same to the last bit, without instructions chosen at run time.
[[nodiscard]] double dot_portable(const float* a, const float* b, uint64_t n);

}  // namespace bp::reference

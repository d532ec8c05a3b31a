#pragma once
// The loops over all entries of a code book, once per instruction set. Every variant gives the same
// bits: entries do not meet in any sum.
//
// With scale s, entry k of a vector x leaves the error sum w x^2 + s * (s * b[k] - a[k]), where
// a[k] = 2 * sum w x g and b[k] = sum w g^2 over the entry's elements g.

#include <cstdint>
#include <span>

namespace bp::quantize {

struct CodebookKernels {
  // values: [n_dims, n_entries]; wx = weights * x, w: [n_dims]; n_entries a multiple of 64.
  void (*project)(const float* values, int n_dims, int n_entries, const float* wx, const float* w,
                  float* a, float* b);
  // The entry of the least s * b - a, the first of equals.
  int (*best)(const float* a, const float* b, int n_entries, float s);
  // keep[k] = 1 unless the line s * b[k] - a[k] lies above, or on, that of entry `other` at both
  // `low` and `high`; or else 0. Leaves what is 0 already.
  void (*drop_dominated)(const float* a, const float* b, int n_entries, float low, float high,
                         int other, uint8_t* keep);
};

// Those that this processor can run, the fastest last.
std::span<const CodebookKernels* const> usable_codebook_kernels();

}  // namespace bp::quantize

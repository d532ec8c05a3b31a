#pragma once
// Normalisation of rows, as the norm, qkv and normalize ops mean it.

#include <cstdint>

#include "backends/cpu/kernels/kernel_table.hpp"

namespace bp::cpu {

struct Normalization {
  uint32_t kind = 0;  // BP_NORM_*
  float eps = 0;
  float weight_offset = 0;
  uint32_t group = 0;             // columns normalised together; 0: the whole row
  const float* weight = nullptr;  // [n_weight], repeating along the row
  const float* bias = nullptr;    // [n_bias], likewise
  uint32_t n_weight = 0;
  uint32_t n_bias = 0;
};

// x and y [width] may be the same.
void normalize_row(const Kernels& kernels, const Normalization& norm, const float* x,
                   uint32_t width, float* y);

}  // namespace bp::cpu

#pragma once
// What tests of dot kernels share: random weights, activations as a panel has them, and exact sums.

#include <cstdint>
#include <vector>

#include "backends/cpu/cpu_features.hpp"
#include "backplane/dtype.hpp"

namespace bp::cpu {

// Of each instruction set that runs here, by tuning.
std::vector<Kernels> all_kernels();

std::vector<bp_dtype> block_types();
// Rows of blocks of random bytes from least to largest, with scales of ordinary size.
std::vector<uint8_t> random_rows(bp_dtype dtype, uint32_t n_rows, uint32_t n_columns, int least = 0,
                                 int largest = 255);
// Strips of such rows, one after another.
std::vector<uint8_t> random_strips(bp_dtype dtype, uint32_t n_strips, uint32_t n_columns);

// Normal values, and in row 1 of wide ones an outlier.
std::vector<float> activations(uint32_t n, uint32_t n_columns);

struct Panel {
  std::vector<int32_t> words;
  std::vector<float> values;  // [n, n_columns] as the panel has them
};
// A panel of x [n, n_columns], and its values as kernels are to understand them.
Panel make_panel(const Kernels& kernels, const std::vector<float>& x, uint32_t n,
                 uint32_t n_columns);
// Of row t in a record of n rows of a panel.
float float_at(const int32_t* words, uint32_t index);
int8_t quant_in(const int32_t* record, uint32_t n, uint32_t t, uint32_t column);

struct Dot {
  double sum = 0;
  double magnitude = 0;  // of all terms
};
Dot exact_dot(const float* w, const float* x, uint32_t n);

}  // namespace bp::cpu

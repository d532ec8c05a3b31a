#pragma once
// Products of 16-bit and 8-bit matrices by somebody else: cuBLASLt on a GPU, a plain loop in the
// emulator.

#include "backends/cuda/device/device.hpp"
#include "backplane/dtype.h"

namespace bp::cuda {

// y[r][c] = x[r] . w[c], sums in f32. Rows of w and x from 16 to 16 bytes.
struct LibraryProduct {
  bp_dtype dtype = BP_DTYPE_NONE;  // of w and x: f16 or bf16; x is e4m3 where w is 8-bit floats
  const void* w = nullptr;
  const void* x = nullptr;
  float* y = nullptr;
  uint64_t w_row_bytes = 0, x_row_bytes = 0;
  uint32_t y_stride = 0;  // floats
  uint32_t n_rows = 0, n_columns = 0, n_in = 0;
};

// For one stream. Everything it needs is taken when it is made.
class MatrixLibrary {
 public:
  virtual ~MatrixLibrary() = default;
  // Unsupported, with nothing done, where the library has no way to compute it.
  virtual Status multiply(const LibraryProduct& product) = 0;
  [[nodiscard]] virtual uint64_t n_bytes() const = 0;  // of device memory
};

}  // namespace bp::cuda

#include "backends/cuda/emulator/emulated_library.hpp"

#include <vector>

#include "backends/cuda/kernels/formats/planes.hpp"
#include "backplane/half.hpp"

namespace bp::cuda::emulator {

namespace {

float value_of(bp_dtype dtype, const uint8_t* row, uint32_t i) {
  const auto* halves = reinterpret_cast<const uint16_t*>(row);
  switch (dtype) {
    case BP_DTYPE_F8_E4M3:
      return f8_e4m3_to_f32(row[i]);
    case BP_DTYPE_F8_E5M2:
      return f8_e5m2_to_f32(row[i]);
    case BP_DTYPE_F16:
      return f16_to_f32(halves[i]);
    default:
      return bf16_to_f32(halves[i]);
  }
}

std::vector<float> row_of(bp_dtype dtype, const void* data, uint64_t row_bytes, uint32_t row,
                          uint32_t n) {
  std::vector<float> values(n);
  const uint8_t* const at = static_cast<const uint8_t*>(data) + row * row_bytes;
  for (uint32_t i = 0; i < n; ++i) values[i] = value_of(dtype, at, i);
  return values;
}

Status compute(const LibraryProduct& p) {
  std::vector<std::vector<float>> x;
  const bp_dtype x_dtype = is_fp8(p.dtype) ? BP_DTYPE_F8_E4M3 : p.dtype;
  for (uint32_t r = 0; r < p.n_rows; ++r) {
    x.push_back(row_of(x_dtype, p.x, p.x_row_bytes, r, p.n_in));
  }
  for (uint32_t c = 0; c < p.n_columns; ++c) {
    const std::vector<float> w = row_of(p.dtype, p.w, p.w_row_bytes, c, p.n_in);
    for (uint32_t r = 0; r < p.n_rows; ++r) {
      float sum = 0;
      for (uint32_t i = 0; i < p.n_in; ++i) sum += x[r][i] * w[i];
      p.y[uint64_t{r} * p.y_stride + c] = sum;
    }
  }
  return {};
}

}  // namespace

// As a library might, it wants whole vectors.
Status EmulatedLibrary::multiply(const LibraryProduct& product) {
  if (product.n_in % 8 != 0) return unsupported("n_in is not a multiple of 8");
  if (is_fp8(product.dtype) && product.n_columns % 32 != 0) {
    return unsupported("n_columns is not a multiple of 32");
  }
  return stream_.add([product] { return compute(product); });
}

}  // namespace bp::cuda::emulator

#include "backends/cuda/emulator/emulated_library.hpp"

#include <vector>

#include "backplane/half.hpp"

namespace bp::cuda::emulator {

namespace {

std::vector<float> row_of(const void* data, uint64_t row_bytes, uint32_t row,
                          const LibraryProduct& p) {
  const auto* bits =
      reinterpret_cast<const uint16_t*>(static_cast<const uint8_t*>(data) + row * row_bytes);
  std::vector<float> values(p.n_in);
  for (uint32_t i = 0; i < p.n_in; ++i) {
    values[i] = p.dtype == BP_DTYPE_F16 ? f16_to_f32(bits[i]) : bf16_to_f32(bits[i]);
  }
  return values;
}

Status compute(const LibraryProduct& p) {
  std::vector<std::vector<float>> x;
  for (uint32_t r = 0; r < p.n_rows; ++r) x.push_back(row_of(p.x, p.x_row_bytes, r, p));
  for (uint32_t c = 0; c < p.n_columns; ++c) {
    const std::vector<float> w = row_of(p.w, p.w_row_bytes, c, p);
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
  return stream_.add([product] { return compute(product); });
}

}  // namespace bp::cuda::emulator

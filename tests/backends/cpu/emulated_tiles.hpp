#pragma once
// Tile registers in memory, for processors without them: included before a kernel's source, it
// replaces the instructions' intrinsics. Sums are taken as Intel's manual says: of bytes exactly,
// of bf16 those of even and of odd columns apart, each by fused additions, and then added. A shape
// that the processor would refuse ends the program.

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bp::test {
namespace {

class EmulatedTiles {
 public:
  void configure(const void* config) {
    std::memcpy(bytes_of_, static_cast<const uint8_t*>(config), sizeof bytes_of_);
    require(bytes_of_[0] == 1, "the palette");
    std::memset(data_, 0, sizeof data_);
  }
  void release() { bytes_of_[0] = 0; }

  void zero(int tile) {
    require(bytes_of_[0] == 1, "a configuration");
    std::memset(data_[tile], 0, sizeof data_[tile]);
  }
  void load(int tile, const void* from, size_t stride) {
    zero(tile);
    for (uint32_t m = 0; m < n_rows(tile); ++m) {
      std::memcpy(data_[tile][m], static_cast<const uint8_t*>(from) + m * stride, row_bytes(tile));
    }
  }
  void store(int tile, void* to, size_t stride) const {
    require(bytes_of_[0] == 1, "a configuration");
    for (uint32_t m = 0; m < n_rows(tile); ++m) {
      std::memcpy(static_cast<uint8_t*>(to) + m * stride, data_[tile][m], row_bytes(tile));
    }
  }

  void add_products_of_bytes(int sum, int a, int b) {
    check_product(sum, a, b);
    for (uint32_t m = 0; m < n_rows(sum); ++m) {
      auto* sums = reinterpret_cast<int32_t*>(data_[sum][m]);
      const auto* left = reinterpret_cast<const int8_t*>(data_[a][m]);
      for (uint32_t k = 0; k < row_bytes(a) / 4; ++k) {
        const auto* right = reinterpret_cast<const int8_t*>(data_[b][k]);
        for (uint32_t n = 0; n < row_bytes(sum) / 4; ++n) {
          for (uint32_t i = 0; i < 4; ++i) sums[n] += left[4 * k + i] * right[4 * n + i];
        }
      }
    }
  }

  void add_products_of_bf16(int sum, int a, int b) {
    check_product(sum, a, b);
    for (uint32_t m = 0; m < n_rows(sum); ++m) {
      float even[kRows] = {}, odd[kRows] = {};
      for (uint32_t k = 0; k < row_bytes(a) / 4; ++k) {
        for (uint32_t n = 0; n < row_bytes(sum) / 4; ++n) {
          even[n] = std::fma(bf16(a, m, 2 * k), bf16(b, k, 2 * n), even[n]);
          odd[n] = std::fma(bf16(a, m, 2 * k + 1), bf16(b, k, 2 * n + 1), odd[n]);
        }
      }
      auto* sums = reinterpret_cast<float*>(data_[sum][m]);
      for (uint32_t n = 0; n < row_bytes(sum) / 4; ++n) sums[n] += even[n] + odd[n];
    }
  }

 private:
  static constexpr uint32_t kRows = 16;

  static void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "emulated tiles: %s does not fit\n", what);
    std::abort();
  }
  void check_product(int sum, int a, int b) const {
    require(bytes_of_[0] == 1 && sum != a && sum != b && a != b, "the choice of tiles");
    require(
        n_rows(a) == n_rows(sum) && row_bytes(b) == row_bytes(sum) && n_rows(b) == row_bytes(a) / 4,
        "a product's shape");
  }
  [[nodiscard]] uint32_t row_bytes(int tile) const {
    uint16_t bytes = 0;
    std::memcpy(&bytes, bytes_of_ + 16 + 2 * tile, sizeof bytes);
    require(bytes <= 64 && bytes % 4 == 0, "a row");
    return bytes;
  }
  [[nodiscard]] uint32_t n_rows(int tile) const {
    require(bytes_of_[48 + tile] <= kRows, "the number of rows");
    return bytes_of_[48 + tile];
  }
  [[nodiscard]] float bf16(int tile, uint32_t row, uint32_t column) const {
    uint16_t bits = 0;
    std::memcpy(&bits, data_[tile][row] + 2 * column, sizeof bits);
    const uint32_t wide = uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }

  uint8_t bytes_of_[64] = {};  // the configuration, as the processor takes it
  alignas(64) uint8_t data_[8][kRows][64] = {};
};

inline EmulatedTiles& emulated_tiles() {
  static thread_local EmulatedTiles tiles;
  return tiles;
}

}  // namespace
}  // namespace bp::test

// gcc has macros for some of them and functions for others.
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) ::bp::test::emulated_tiles().configure(config)
#define _tile_release() ::bp::test::emulated_tiles().release()
#define _tile_zero(tile) ::bp::test::emulated_tiles().zero(tile)
#define _tile_loadd(tile, from, stride) ::bp::test::emulated_tiles().load(tile, from, stride)
#define _tile_stored(tile, to, stride) ::bp::test::emulated_tiles().store(tile, to, stride)
#define _tile_dpbssd(sum, a, b) ::bp::test::emulated_tiles().add_products_of_bytes(sum, a, b)
#define _tile_dpbf16ps(sum, a, b) ::bp::test::emulated_tiles().add_products_of_bf16(sum, a, b)

#pragma once
// The shapes of the eight tile registers, as the processor takes them (palette 1).
// Included by the kernels of this instruction set alone; everything has internal linkage.

#include <immintrin.h>
#include <stdint.h>

namespace bp::cpu::amx {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t n_rows[16] = {};
};

// gcc believes that the instruction reads 8 bytes of it, and leaves the others unwritten.
inline void load_config(const TileConfig& config) {
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

}  // namespace
}  // namespace bp::cpu::amx

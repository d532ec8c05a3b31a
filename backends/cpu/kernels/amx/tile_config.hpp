#pragma once
// The shapes of the eight tile registers, as the processor takes them (palette 1).
// Included by the kernels of this instruction set alone; everything has internal linkage.

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

}  // namespace
}  // namespace bp::cpu::amx

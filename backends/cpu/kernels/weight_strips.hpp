#pragma once
// Strips of quantised weights, and what products keep of them unpacked.
//
// Compiled with wide instructions enabled: see kernel_table.hpp.

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/activation_panel.hpp"

namespace bp::cpu {

// Weights stand in strips of kStripRows rows; a strip is the unit of work of a matrix product.
inline constexpr uint32_t kStripRows = 16;

// How a strip of weights is laid out; described in weights/strip_layout.hpp.
enum class StripLayout : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIq4Nl,
  kIq4Xs,
  kIq3Xxs,
  kIq3S,
  kIq2Xxs,
  kIq2S,
  kIq1S,
  kIq1M,
  kMxfp4,
  kNvfp4,
  kQ2_0,
};
inline constexpr uint32_t kStripLayouts = 22;

// A part of a strip whose quants are bytes, as products take them, and whose scales are floats: of
// at most kUnpackedBlocks times 32 columns, so that two about fill the first-level cache.
struct StripPart {
  uint32_t begin, end;  // in blocks of 32 columns; begin is a multiple of kUnpackedBlocks
  uint32_t n_blocks;    // of the strip
};
inline constexpr uint32_t kUnpackedBlocks = 32;
inline constexpr uint32_t kUnpackedBlockBytes = 640;  // at most
inline constexpr uint32_t kUnpackedBytes = kUnpackedBlocks * kUnpackedBlockBytes;

// n strips of one weight, one after another.
struct TileStrips {
  const uint8_t* first;
  size_t bytes;  // of a strip
  uint32_t n;
};

// Of kTileStrips strips kTilePartBlocks times 32 columns stand unpacked at once.
inline constexpr uint32_t kTileStrips = 4;
inline constexpr uint32_t kTilePartBlocks = 32;
// What 32 columns of a strip take unpacked, and the list of their products with a first and a
// second record.
inline constexpr uint32_t kTileBlockBytes = 896;
inline constexpr uint32_t kTileProductBytes = 48;
// Static: see kernel_table.hpp.
static inline size_t tile_unpacked_bytes(uint32_t n_blocks) {
  const size_t n = n_blocks < kTilePartBlocks ? n_blocks : kTilePartBlocks;
  return kTileStrips * n * kTileBlockBytes;
}
static inline size_t tile_scratch_bytes(uint32_t n_columns) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  return tile_unpacked_bytes(n_blocks) + (n_blocks + size_t{2}) * kTileProductBytes;
}

}  // namespace bp::cpu

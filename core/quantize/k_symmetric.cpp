// Super-blocks of scales alone: q3_K, q6_K.

#include "core/quantize/block.hpp"
#include "core/quantize/encoders.hpp"
#include "core/quantize/grouped_scales.hpp"

namespace bp::quantize {

namespace {

// Quants of all elements, counted from kLowest up.
template <int kLowest, class Levels>
void count_up(const Levels& levels, const GroupedScales<16>& scales, const float* in,
              uint8_t* quants) {
  for (int i = 0; i < 256; ++i) {
    const float q = levels.snap(in[i] * inverse(scales.scale(i / 16)));
    quants[i] = static_cast<uint8_t>(static_cast<int>(q) - kLowest);
  }
}

// Scale j of 16, counted up from -32, into 12 bytes: low nibbles in bytes 0..7 (j and j + 8), the
// upper two bits in bytes 8..11 (j, j + 4, j + 8, j + 12).
void store_q3_scale(int multiple, int j, uint8_t* scales) {
  const int bits = multiple + 32;
  scales[j % 8] = static_cast<uint8_t>(scales[j % 8] | (bits & 0xf) << (j / 8 * 4));
  scales[8 + j % 4] = static_cast<uint8_t>(scales[8 + j % 4] | (bits >> 4) << (j / 4 * 2));
}

}  // namespace

void encode_block_q3_K(const float* in, const float* weights, uint8_t* block) {
  constexpr WholeLevels<-4, 3, 10, 14> levels;
  const auto scales = fit_grouped_scales<16, -32, 31>(levels, in, weights);
  uint8_t quants[256];
  count_up<-4>(levels, scales, in, quants);
  std::memset(block, 0, 110);
  for (int i = 0; i < 256; ++i) {  // the third bit: 0 stands for -4
    block[i % 32] = static_cast<uint8_t>(block[i % 32] | (quants[i] >> 2) << (i / 32));
  }
  store_two_bits(quants, block + 32);
  for (int j = 0; j < 16; ++j) {
    store_q3_scale(scales.multiple[static_cast<size_t>(j)], j, block + 96);
  }
  store_f16(block + 108, scales.d);
}

void encode_block_q6_K(const float* in, const float* weights, uint8_t* block) {
  constexpr WholeLevels<-32, 31> levels;
  const auto scales = fit_grouped_scales<16, -128, 127>(levels, in, weights);
  uint8_t quants[256], upper[256];
  count_up<-32>(levels, scales, in, quants);
  for (int i = 0; i < 256; ++i) upper[i] = quants[i] >> 4;
  for (int half = 0; half < 2; ++half) {
    store_nibbles(quants + 128 * half, 128, block + 64 * half);
  }
  store_two_bits(upper, block + 128);
  for (int j = 0; j < 16; ++j) {
    block[192 + j] = static_cast<uint8_t>(scales.multiple[static_cast<size_t>(j)]);
  }
  store_f16(block + 208, scales.d);
}

}  // namespace bp::quantize

// Plain floats, and blocks of 32 values with one scale: q4_0, q4_1, q5_0, q5_1, q8_0.

#include <algorithm>
#include <cmath>

#include "core/quantize/block.hpp"
#include "core/quantize/encoders.hpp"
#include "core/quantize/fit.hpp"

namespace bp::quantize {

namespace {

constexpr int kBlock = 32;

// Quants counted up from kLowest. Returns d as it is stored.
template <int kLowest, int kHighest>
float quantise_symmetric(const float* in, const float* weights, uint8_t* quants) {
  constexpr WholeLevels<kLowest, kHighest> levels;
  const float d = round_to_f16(fit_scale(levels, in, weights, kBlock).scale);
  for (int j = 0; j < kBlock; ++j) {
    const float q = levels.snap(in[j] * inverse(d));
    quants[j] = static_cast<uint8_t>(static_cast<int>(q) - kLowest);
  }
  return d;
}

// Writes d and the minimum to `block`.
template <int kMax>
void quantise_affine(const float* in, const float* weights, uint8_t* quants, uint8_t* block) {
  constexpr WholeLevels<0, kMax> levels;
  const AffineFit fit = fit_affine<kMax, Offset::kAny>(in, weights, kBlock);
  const float d = round_to_f16(fit.scale), min = round_to_f16(fit.offset);
  for (int j = 0; j < kBlock; ++j) {
    quants[j] = static_cast<uint8_t>(levels.snap((in[j] - min) * inverse(d)));
  }
  store_f16(block, d);
  store_f16(block + 2, min);
}

// A fifth bit per element, bit j of a 32-bit number.
void store_fifth_bits(const uint8_t* quants, uint8_t* bytes) {
  uint32_t bits = 0;
  for (int j = 0; j < kBlock; ++j) bits |= static_cast<uint32_t>(quants[j] >> 4) << j;
  store(bytes, bits);
}

}  // namespace

void encode_block_f32(const float* in, const float*, uint8_t* bytes) {
  store(bytes, *in);
}
void encode_block_f16(const float* in, const float*, uint8_t* bytes) {
  store(bytes, f32_to_f16(*in));
}
void encode_block_bf16(const float* in, const float*, uint8_t* bytes) {
  store(bytes, f32_to_bf16(*in));
}

void encode_block_q4_0(const float* in, const float* weights, uint8_t* block) {
  uint8_t quants[kBlock];
  store_f16(block, quantise_symmetric<-8, 7>(in, weights, quants));
  store_nibbles(quants, kBlock, block + 2);
}

void encode_block_q4_1(const float* in, const float* weights, uint8_t* block) {
  uint8_t quants[kBlock];
  quantise_affine<15>(in, weights, quants, block);
  store_nibbles(quants, kBlock, block + 4);
}

void encode_block_q5_0(const float* in, const float* weights, uint8_t* block) {
  uint8_t quants[kBlock];
  store_f16(block, quantise_symmetric<-16, 15>(in, weights, quants));
  store_fifth_bits(quants, block + 2);
  store_nibbles(quants, kBlock, block + 6);
}

void encode_block_q5_1(const float* in, const float* weights, uint8_t* block) {
  uint8_t quants[kBlock];
  quantise_affine<31>(in, weights, quants, block);
  store_fifth_bits(quants, block + 4);
  store_nibbles(quants, kBlock, block + 8);
}

// Steps are so fine that a search gains nothing: the peak falls on 127.
void encode_block_q8_0(const float* in, const float*, uint8_t* block) {
  const float d = round_to_f16(std::fabs(peak(in, kBlock)) / 127.0f);
  constexpr WholeLevels<-127, 127> levels;
  store_f16(block, d);
  for (int j = 0; j < kBlock; ++j) {
    store(block + 2 + j, static_cast<int8_t>(levels.snap(in[j] * inverse(d))));
  }
}

}  // namespace bp::quantize

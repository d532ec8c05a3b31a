// One scale for many values of one or two bits: tq1_0, tq2_0, q1_0, q2_0.

#include <cmath>

#include "core/quantize/block.hpp"
#include "core/quantize/encoders.hpp"
#include "core/quantize/fit.hpp"

namespace bp::quantize {

namespace {

// Most of the outer values are cut off: the peak lies up to three levels beyond.
using Ternary = WholeLevels<-1, 1, 2, 30>;
using TwoBits = WholeLevels<-1, 2, 2, 30>;

// Quants counted up from -1. Returns d as it is stored.
template <class Levels>
float quantise(const float* in, const float* weights, int n, uint8_t* quants) {
  constexpr Levels levels;
  const float d = round_to_f16(fit_scale(levels, in, weights, n).scale);
  for (int i = 0; i < n; ++i) {
    quants[i] = static_cast<uint8_t>(static_cast<int>(levels.snap(in[i] * inverse(d))) + 1);
  }
  return d;
}

// n_digits ternary digits in each of n_bytes bytes, digit n of byte m being element n * n_bytes +
// m: the byte is the fraction of 256 that they spell after the point, rounded up. Returns the rest
// of the digits.
const uint8_t* store_digits(const uint8_t* digits, int n_bytes, int n_digits, uint8_t* bytes) {
  for (int m = 0; m < n_bytes; ++m) {
    int number = 0;
    for (int n = 0; n < 5; ++n) number = 3 * number + (n < n_digits ? digits[n * n_bytes + m] : 0);
    bytes[m] = static_cast<uint8_t>((number * 256 + 242) / 243);
  }
  return digits + n_bytes * n_digits;
}

}  // namespace

void encode_block_tq1_0(const float* in, const float* weights, uint8_t* block) {
  uint8_t digits[256];
  store_f16(block + 52, quantise<Ternary>(in, weights, 256, digits));
  const uint8_t* rest = store_digits(digits, 32, 5, block);
  rest = store_digits(rest, 16, 5, block + 32);
  store_digits(rest, 4, 4, block + 48);
}

void encode_block_tq2_0(const float* in, const float* weights, uint8_t* block) {
  uint8_t quants[256];
  store_f16(block + 64, quantise<Ternary>(in, weights, 256, quants));
  store_two_bits(quants, block);
}

void encode_block_q1_0(const float* in, const float* weights, uint8_t* block) {
  float magnitude = 0, total = 0;
  for (int i = 0; i < 128; ++i) {
    magnitude += weights[i] * std::fabs(in[i]);
    total += weights[i];
  }
  std::memset(block, 0, 18);
  store_f16(block, magnitude / total);
  for (int i = 0; i < 128; ++i) {
    if (in[i] >= 0) block[2 + i / 8] = static_cast<uint8_t>(block[2 + i / 8] | 1 << (i % 8));
  }
}

void encode_block_q2_0(const float* in, const float* weights, uint8_t* block) {
  uint8_t quants[64];
  store_f16(block, quantise<TwoBits>(in, weights, 64, quants));
  for (int i = 0; i < 16; ++i) {
    const uint8_t* q = quants + 4 * i;
    block[2 + i] = static_cast<uint8_t>(q[0] | q[1] << 2 | q[2] << 4 | q[3] << 6);
  }
}

}  // namespace bp::quantize

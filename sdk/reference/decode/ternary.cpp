// Values -1, 0, 1 with one scale for 256: tq1_0, tq2_0.

#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

namespace {

// A byte b holds five base-3 digits as the fraction b / 256, most significant first: digit n is the
// integer part of 3 * frac(b * 3^n / 256).
int ternary_digit(uint8_t byte, int n) {
  constexpr uint8_t kPowersOf3[5] = {1, 3, 9, 27, 81};
  const auto fraction = static_cast<uint8_t>(byte * kPowersOf3[n]);
  return (fraction * 3) >> 8;
}

// n_digits values from each of n_bytes bytes: digit n of byte m is element n * n_bytes + m.
float* write_digits(const uint8_t* bytes, int n_bytes, int n_digits, float d, float* out) {
  for (int n = 0; n < n_digits; ++n) {
    for (int m = 0; m < n_bytes; ++m) {
      *out++ = static_cast<float>(ternary_digit(bytes[m], n) - 1) * d;
    }
  }
  return out;
}

}  // namespace

// | qs[48]: 5 digits each, 32 bytes for elements 0..159, 16 for 160..239 |
// | qh[4]: 4 digits each, elements 240..255 | f16 d |  value = d * (digit - 1)
void decode_block_tq1_0(const uint8_t* block, float* out) {
  const float d = load_f16(block + 52);
  out = write_digits(block, 32, 5, d, out);
  out = write_digits(block + 32, 16, 5, d, out);
  write_digits(block + 48, 4, 4, d, out);
}

// | qs[64] | f16 d |  in each half of 128 elements, byte m (of 32) holds elements m, m + 32, m + 64
// and m + 96, lowest bits first; value = d * (q - 1)
void decode_block_tq2_0(const uint8_t* block, float* out) {
  const float d = load_f16(block + 64);
  for (int i = 0; i < 256; ++i) {
    const int q = (block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    out[i] = static_cast<float>(q - 1) * d;
  }
}

}  // namespace bp::reference

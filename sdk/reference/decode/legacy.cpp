// Blocks of 32 values with one scale: q4_0, q4_1, q5_0, q5_1, q8_0, q8_1.
//
// Nibbles: byte j of `qs` holds element j in its low and element j + 16 in its high half.

#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

// | f16 d | qs[16] |  value = d * (q - 8)
void decode_block_q4_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint8_t* qs = block + 2;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>((qs[j] & 0xf) - 8) * d;
    out[j + 16] = static_cast<float>((qs[j] >> 4) - 8) * d;
  }
}

// | f16 d | f16 m | qs[16] |  value = d * q + m
void decode_block_q4_1(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  const uint8_t* qs = block + 4;
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(qs[j] & 0xf) * d + m;
    out[j + 16] = static_cast<float>(qs[j] >> 4) * d + m;
  }
}

namespace {

// Element j's fifth bit is bit j of qh.
int five_bits(const uint8_t* qs, uint32_t qh, int j) {
  const uint32_t low = j < 16 ? qs[j] & 0xfu : qs[j - 16] >> 4;
  return static_cast<int>(low | ((qh >> j) & 1) << 4);
}

}  // namespace

// | f16 d | u32 qh | qs[16] |  value = d * (q - 16)
void decode_block_q5_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint32_t qh = load<uint32_t>(block + 2);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(five_bits(block + 6, qh, j) - 16) * d;
}

// | f16 d | f16 m | u32 qh | qs[16] |  value = d * q + m
void decode_block_q5_1(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float m = load_f16(block + 2);
  const uint32_t qh = load<uint32_t>(block + 4);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(five_bits(block + 8, qh, j)) * d + m;
}

// | f16 d | int8 qs[32] |  value = d * q
void decode_block_q8_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(load<int8_t>(block + 2 + j)) * d;
}

// | f16 d | f16 s = d * sum of qs | int8 qs[32] |  value = d * q
void decode_block_q8_1(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(load<int8_t>(block + 4 + j)) * d;
}

}  // namespace bp::reference

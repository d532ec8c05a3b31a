// Super-blocks of 256 values with quantised scales: q2_K, q3_K, q4_K, q5_K, q6_K, q8_K.
//
// Two-bit fields: in each half of 128 elements, byte l (of 32) holds elements l, l + 32, l + 64 and
// l + 96, lowest bits first.

#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

namespace {

// Two bits of element i of 256, from 64 bytes.
int two_bits(const uint8_t* qs, int i) {
  return (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

// Scale j of 16, signed 6 bits, from 12 bytes: low nibbles in bytes 0..7 (j and j + 8), the upper
// two bits in bytes 8..11 (j, j + 4, j + 8, j + 12).
int q3_scale(const uint8_t* scales, int j) {
  const int low = j < 8 ? scales[j] & 0xf : scales[j - 8] >> 4;
  const int high = (scales[8 + j % 4] >> (j / 4 * 2)) & 3;
  return (low | high << 4) - 32;
}

struct ScaleMin {
  uint32_t scale;
  uint32_t min;
};

// Scale and minimum j of 8, 6 bits each, from 12 bytes: those of 0..3 in the low 6 bits of bytes
// 0..3 and 4..7; those of 4..7 as nibbles of bytes 8..11 and the upper two bits of bytes 0..7.
ScaleMin scale_min(const uint8_t* scales, int j) {
  if (j < 4) return {scales[j] & 63u, scales[j + 4] & 63u};
  return {(scales[j + 4] & 0xfu) | (scales[j - 4] >> 6) << 4,
          (scales[j + 4] >> 4) | static_cast<uint32_t>(scales[j] >> 6) << 4};
}

}  // namespace

// | scales[16]: scale low, min high nibble, of 16 elements each | qs[64] two-bit | f16 d | f16 dmin
// | value = d * scale * q - dmin * min
void decode_block_q2_K(const uint8_t* block, float* out) {
  const uint8_t* scales = block;
  const uint8_t* qs = block + 16;
  const float d = load_f16(block + 80);
  const float dmin = load_f16(block + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(scales[i / 16] & 0xf);
    const float min = dmin * static_cast<float>(scales[i / 16] >> 4);
    out[i] = scale * static_cast<float>(two_bits(qs, i)) - min;
  }
}

// | hmask[32] | qs[64] two-bit | scales[12] of 16 elements each | f16 d |
// hmask: byte i % 32, bit i / 32; value = d * scale * (q - (bit ? 0 : 4))
void decode_block_q3_K(const uint8_t* block, float* out) {
  const uint8_t* hmask = block;
  const uint8_t* qs = block + 32;
  const float d = load_f16(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int q = two_bits(qs, i) - ((hmask[i % 32] >> (i / 32)) & 1 ? 0 : 4);
    const float scale = d * static_cast<float>(q3_scale(block + 96, i / 16));
    out[i] = scale * static_cast<float>(q);
  }
}

// | f16 d | f16 dmin | scales[12] of 32 elements each | qs[128] |
// qs: byte 32 * g + l holds elements 64 * g + l (low nibble) and 64 * g + l + 32 (high)
// value = d * scale * q - dmin * min
void decode_block_q4_K(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float dmin = load_f16(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin s = scale_min(block + 4, group);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    const uint8_t* qs = block + 16 + group / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      const int q = (qs[l] >> (group % 2 * 4)) & 0xf;
      out[group * 32 + l] = scale * static_cast<float>(q) - min;
    }
  }
}

// | f16 d | f16 dmin | scales[12] of 32 elements each | qh[32] | qs[128] as in q4_K |
// qh: byte i % 32, bit i / 32 is the fifth bit; value = d * scale * q - dmin * min
void decode_block_q5_K(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const float dmin = load_f16(block + 2);
  const uint8_t* qh = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin s = scale_min(block + 4, group);
    const float scale = d * static_cast<float>(s.scale);
    const float min = dmin * static_cast<float>(s.min);
    const uint8_t* qs = block + 48 + group / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      const int q = ((qs[l] >> (group % 2 * 4)) & 0xf) | ((qh[l] >> group) & 1) << 4;
      out[group * 32 + l] = scale * static_cast<float>(q) - min;
    }
  }
}

// | ql[128] | qh[64] two-bit | int8 scales[16] of 16 elements each | f16 d |
// ql: in each half of 128, byte l (of 64) holds elements l (low nibble) and l + 64 (high)
// value = d * scale * (q - 32)
void decode_block_q6_K(const uint8_t* block, float* out) {
  const uint8_t* ql = block;
  const uint8_t* qh = block + 128;
  const float d = load_f16(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int low = (ql[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 0xf;
    const int q = (low | two_bits(qh, i) << 4) - 32;
    const float scale = d * static_cast<float>(load<int8_t>(block + 192 + i / 16));
    out[i] = scale * static_cast<float>(q);
  }
}

// | f32 d | int8 qs[256] | int16 sums[16] of 16 qs each |  value = d * q
void decode_block_q8_K(const uint8_t* block, float* out) {
  const float d = load<float>(block);
  for (int i = 0; i < 256; ++i) out[i] = d * static_cast<float>(load<int8_t>(block + 4 + i));
}

}  // namespace bp::reference

// Two bits and a bit: 8 magnitudes from a code book, signs apart. iq2_xxs, iq2_xs, iq2_s.

#include "backplane/reference/codebooks.hpp"
#include "block.hpp"
#include "decoders.hpp"
#include "grid.hpp"

namespace bp::reference {

namespace {

// 4-bit scales stand for odd eighths of d.
float scale_of(float d, uint32_t four_bits) {
  return d * (0.5f + static_cast<float>(four_bits)) * 0.25f;
}

}  // namespace

// | f16 d | 8 groups of 32: { u8 index[4], u32: 4 x 7 sign bits, scale in bits 28..31 } |
void decode_block_iq2_xxs(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int group = 0; group < 8; ++group) {
    const uint8_t* index = block + 2 + 8 * group;
    const uint32_t word = load<uint32_t>(index + 4);
    const float scale = scale_of(d, word >> 28);
    for (int l = 0; l < 4; ++l) {
      const uint8_t signs = even_signs((word >> (7 * l)) & 127);
      write_signed(kIq2XxsGrid[index[l]], signs, scale, out + 32 * group + 8 * l);
    }
  }
}

// | f16 d | u16 qs[32]: 9 bits index, 7 bits signs | scales[8]: a nibble for 16 elements, low first
// |
void decode_block_iq2_xs(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint8_t* scales = block + 66;
  for (int i = 0; i < 32; ++i) {
    const uint16_t q = load<uint16_t>(block + 2 + 2 * i);
    const float scale = scale_of(d, (scales[i / 4] >> (i % 4 / 2 * 4)) & 0xf);
    write_signed(kIq2XsGrid[q & 511], even_signs(q >> 9), scale, out + 8 * i);
  }
}

// | f16 d | index[32], low 8 bits | signs[32] | qh[8]: 2 upper index bits for each of 4 entries |
// | scales[8] as in iq2_xs |
void decode_block_iq2_s(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint8_t* low = block + 2;
  const uint8_t* signs = block + 34;
  const uint8_t* qh = block + 66;
  const uint8_t* scales = block + 74;
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = (qh[i / 4] >> (i % 4 * 2)) & 3;
    const float scale = scale_of(d, (scales[i / 4] >> (i % 4 / 2 * 4)) & 0xf);
    write_signed(kIq2SGrid[low[i] | high << 8], signs[i], scale, out + 8 * i);
  }
}

}  // namespace bp::reference

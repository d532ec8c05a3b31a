// Three bits and a bit: 4 magnitudes from a code book, signs apart. iq3_xxs, iq3_s.

#include "backplane/reference/codebooks.hpp"
#include "block.hpp"
#include "decoders.hpp"
#include "grid.hpp"

namespace bp::reference {

// | f16 d | index[64] | 8 words u32, of 32 elements each: 4 x 7 sign bits, scale in bits 28..31 |
void decode_block_iq3_xxs(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint8_t* index = block + 2;
  for (int group = 0; group < 8; ++group) {
    const uint32_t word = load<uint32_t>(block + 66 + 4 * group);
    const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    for (int l = 0; l < 4; ++l) {
      const uint32_t signs = even_signs((word >> (7 * l)) & 127);
      const int i = 8 * group + 2 * l;
      write_signed(kIq3XxsGrid[index[i]], signs, scale, out + 4 * i);
      write_signed(kIq3XxsGrid[index[i + 1]], signs >> 4, scale, out + 4 * i + 4);
    }
  }
}

// | f16 d | index[64], low 8 bits | qh[8]: bit i % 8 of byte i / 8 is index i's ninth | signs[32] |
// | scales[4]: a nibble for 32 elements, low first |  scale = d * (1 + 2 * nibble)
void decode_block_iq3_s(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint8_t* low = block + 2;
  const uint8_t* qh = block + 66;
  const uint8_t* signs = block + 74;
  const uint8_t* scales = block + 106;
  for (int i = 0; i < 64; ++i) {
    const uint32_t high = (qh[i / 8] >> (i % 8)) & 1;
    const int nibble = (scales[i / 16] >> (i % 16 / 8 * 4)) & 0xf;
    const float scale = d * static_cast<float>(1 + 2 * nibble);
    write_signed(kIq3SGrid[low[i] | high << 8], signs[i / 2] >> (i % 2 * 4), scale, out + 4 * i);
  }
}

}  // namespace bp::reference

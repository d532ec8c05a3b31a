// One bit and a bit: 8 values of -1, 0, 1 from a code book, all shifted by an eighth up or down.
// iq1_s, iq1_m.

#include "backplane/reference/codebooks.hpp"
#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

namespace {

float shift_of(bool down) {
  return down ? -0.125f : 0.125f;
}

void write_shifted(uint64_t entry, float shift, float scale, float* out) {
  for (int j = 0; j < 8; ++j) {
    const auto value = static_cast<int8_t>(entry >> (8 * j) & 0xff);
    out[j] = scale * (static_cast<float>(value) + shift);
  }
}

}  // namespace

// | f16 d | index[32], low 8 bits | u16 qh[8], of 4 entries each: 4 x 3 upper index bits, 3 bits
// scale, bit 15 shift down |  scale = d * (1 + 2 * bits)
void decode_block_iq1_s(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint8_t* low = block + 2;
  for (int i = 0; i < 32; ++i) {
    const uint32_t qh = load<uint16_t>(block + 34 + i / 4 * 2);
    const float scale = d * static_cast<float>(1 + 2 * ((qh >> 12) & 7));
    const uint32_t index = low[i] | ((qh >> (i % 4 * 3)) & 7) << 8;
    write_shifted(kIq1Grid[index], shift_of((qh & 0x8000) != 0), scale, out + 8 * i);
  }
}

// | index[32], low 8 bits | qh[16]: a nibble for each entry, low first: 3 upper index bits, shift
// down | | u16 scales[4]: 4 x 3 bits for 16 elements each, bits 12..15 are nibble k of the f16 d |
void decode_block_iq1_m(const uint8_t* block, float* out) {
  const uint8_t* low = block;
  const uint8_t* qh = block + 32;
  const uint8_t* scales = block + 48;
  uint32_t d_bits = 0;
  for (int k = 0; k < 4; ++k) d_bits |= (load<uint16_t>(scales + 2 * k) >> 12) << (4 * k);
  const float d = f16_to_f32(static_cast<uint16_t>(d_bits));
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = load<uint16_t>(scales + i / 8 * 2);
    const float scale = d * static_cast<float>(1 + 2 * ((word >> (i % 8 / 2 * 3)) & 7));
    const uint32_t nibble = (qh[i / 2] >> (i % 2 * 4)) & 0xf;
    const uint32_t index = low[i] | (nibble & 7) << 8;
    write_shifted(kIq1Grid[index], shift_of((nibble & 8) != 0), scale, out + 8 * i);
  }
}

}  // namespace bp::reference

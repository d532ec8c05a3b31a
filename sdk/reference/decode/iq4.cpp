// Four bits on a non-linear scale: iq4_nl, iq4_xs.
//
// Nibbles: byte j of 16 holds element j in its low and element j + 16 in its high half.

#include "backplane/reference/codebooks.hpp"
#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

namespace {

void write_levels(const uint8_t* qs, float scale, float* out) {
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(kIq4Values[qs[j] & 0xf]);
    out[j + 16] = scale * static_cast<float>(kIq4Values[qs[j] >> 4]);
  }
}

}  // namespace

// | f16 d | qs[16] |  value = d * level
void decode_block_iq4_nl(const uint8_t* block, float* out) {
  write_levels(block + 2, load_f16(block), out);
}

// | f16 d | u16 high: 2 upper scale bits of 8 groups | low[4]: 4 lower bits, low nibble first |
// | qs[128]: 16 bytes for 32 elements |  value = d * (scale - 32) * level
void decode_block_iq4_xs(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  const uint32_t high = load<uint16_t>(block + 2);
  const uint8_t* low = block + 4;
  for (int group = 0; group < 8; ++group) {
    const uint32_t scale =
        ((low[group / 2] >> (group % 2 * 4)) & 0xfu) | ((high >> (2 * group)) & 3) << 4;
    const float factor = d * static_cast<float>(static_cast<int>(scale) - 32);
    write_levels(block + 8 + 16 * group, factor, out + 32 * group);
  }
}

}  // namespace bp::reference

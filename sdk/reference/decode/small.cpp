// One and two bits with one scale: q1_0, q2_0. Elements lie in order, lowest bits first.

#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

// | f16 d | 128 bits |  value = bit ? d : -d
void decode_block_q1_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 128; ++i) out[i] = (block[2 + i / 8] >> (i % 8)) & 1 ? d : -d;
}

// | f16 d | 64 x 2 bits |  value = d * (q - 1)
void decode_block_q2_0(const uint8_t* block, float* out) {
  const float d = load_f16(block);
  for (int i = 0; i < 64; ++i) {
    const int q = (block[2 + i / 4] >> (i % 4 * 2)) & 3;
    out[i] = static_cast<float>(q - 1) * d;
  }
}

}  // namespace bp::reference

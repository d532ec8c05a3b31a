// Four-bit floats (e2m1) with small float scales: mxfp4, nvfp4. The table of values holds their
// doubles, so that it is whole numbers; scales are halved.

#include "backplane/reference/codebooks.hpp"
#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

namespace {

// Byte j of n / 2 holds element j in its low and element j + n / 2 in its high half.
void write_fp4(const uint8_t* qs, int n, float half_scale, float* out) {
  for (int j = 0; j < n / 2; ++j) {
    out[j] = static_cast<float>(kFp4Values[qs[j] & 0xf]) * half_scale;
    out[j + n / 2] = static_cast<float>(kFp4Values[qs[j] >> 4]) * half_scale;
  }
}

}  // namespace

// | e8m0 scale | qs[16] |
void decode_block_mxfp4(const uint8_t* block, float* out) {
  write_fp4(block + 1, 32, e8m0_to_f32(block[0]) * 0.5f, out);
}

// | unsigned e4m3 scales[4], of 16 elements each | qs[32], 8 bytes for 16 elements |
void decode_block_nvfp4(const uint8_t* block, float* out) {
  for (int group = 0; group < 4; ++group) {
    const float scale = f8_e4m3_to_f32(block[group] & 0x7f);
    write_fp4(block + 4 + 8 * group, 16, scale * 0.5f, out + 16 * group);
  }
}

}  // namespace bp::reference

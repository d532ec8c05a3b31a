// Hand-made blocks: where each field lies and how it enters the value.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/half.hpp"
#include "backplane/reference/codebooks.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::reference {
namespace {

// A zeroed block with setters for its fields.
class Block {
 public:
  explicit Block(bp_dtype dtype) : dtype_(dtype), bytes_(dtype_info(dtype).block_bytes) {}

  Block& byte(size_t at, uint8_t value) { return bytes_.at(at) = value, *this; }
  Block& fill(size_t at, size_t n, uint8_t value) {
    std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), n, value);
    return *this;
  }
  template <class T>
  Block& put(size_t at, T value) {
    std::memcpy(&bytes_.at(at), &value, sizeof value);
    return *this;
  }
  Block& f16(size_t at, float value) { return put(at, f32_to_f16(value)); }

  std::vector<float> decode() const {
    std::vector<float> out(dtype_info(dtype_).block_elements);
    EXPECT_TRUE(decode_row(dtype_, bytes_.data(), out.size(), out.data()).ok());
    return out;
  }

 private:
  bp_dtype dtype_;
  std::vector<uint8_t> bytes_;
};

TEST(LegacyBlocks, Q4_0HoldsTwoHalvesInNibbles) {
  const auto v = Block(BP_DTYPE_Q4_0).f16(0, 0.5f).byte(2, 0x0f).byte(17, 0x90).decode();
  EXPECT_EQ(v[0], 3.5f);
  EXPECT_EQ(v[16], -4.0f);
  EXPECT_EQ(v[15], -4.0f);
  EXPECT_EQ(v[31], 0.5f);
}

TEST(LegacyBlocks, Q4_1AddsTheMinimum) {
  const auto v = Block(BP_DTYPE_Q4_1).f16(0, 2).f16(2, -1).byte(4, 0xf3).decode();
  EXPECT_EQ(v[0], 5);
  EXPECT_EQ(v[16], 29);
  EXPECT_EQ(v[1], -1);
}

TEST(LegacyBlocks, Q5TakesItsFifthBitFromQh) {
  const auto v = Block(BP_DTYPE_Q5_0).f16(0, 1).put<uint32_t>(2, 1u | 1u << 31).decode();
  EXPECT_EQ(v[0], 0);
  EXPECT_EQ(v[1], -16);
  EXPECT_EQ(v[31], 0);
  const auto w = Block(BP_DTYPE_Q5_1).f16(0, 1).f16(2, 8).put<uint32_t>(4, 1u << 16).decode();
  EXPECT_EQ(w[16], 24);
  EXPECT_EQ(w[15], 8);
}

TEST(LegacyBlocks, Q8IsSignedBytes) {
  EXPECT_EQ(Block(BP_DTYPE_Q8_0).f16(0, 2).byte(33, 0x81).decode()[31], -254);
  EXPECT_EQ(Block(BP_DTYPE_Q8_1).f16(0, 2).f16(2, 99).byte(4, 0xff).decode()[0], -2);
}

TEST(KQuants, Q2KScalesAndMinimumsOf16) {
  // Scale 3 and minimum 2 of elements 16..31; their quants 1 lie in the lowest bits of
  // bytes 16..31.
  const auto v =
      Block(BP_DTYPE_Q2_K).byte(1, 0x23).fill(16 + 16, 16, 0x01).f16(80, 2).f16(82, 0.5f).decode();
  EXPECT_EQ(v[16], 2 * 3 * 1 - 0.5f * 2);
  EXPECT_EQ(v[31], 5);
  EXPECT_EQ(v[15], 0);
  EXPECT_EQ(v[32], 0);
}

TEST(KQuants, Q3KScaleOf32IsZeroAndMissingHighBitSubtractsFour) {
  // Scale 15: high nibble of byte 7 and bits 6..7 of byte 11: 0b10'0001 = 33, one above zero.
  const auto v = Block(BP_DTYPE_Q3_K)
                     .byte(96 + 7, 0x10)
                     .byte(96 + 11, 0x80)
                     .byte(31, 0x80)
                     .byte(32 + 63, 0xc0)
                     .f16(108, 1)
                     .decode();
  EXPECT_EQ(v[255], 3);
  EXPECT_EQ(v[254], -4);
  EXPECT_EQ(v[0], 128);  // scale -32 times -4
}

TEST(KQuants, Q4KPacksEightScalesAndMinimumsInTwelveBytes) {
  // Group 0: scale 5, min 7. Group 4: scale 0x21 (nibble 1, upper bits 2), min 0x13 (3 and 1).
  const auto v = Block(BP_DTYPE_Q4_K)
                     .f16(0, 1)
                     .f16(2, 1)
                     .byte(4, 0x85)
                     .byte(8, 0x47)
                     .byte(12, 0x31)
                     .fill(16, 128, 0x21)
                     .decode();
  EXPECT_EQ(v[0], 5 * 1 - 7);
  EXPECT_EQ(v[128], 0x21 * 1 - 0x13);
  EXPECT_EQ(v[32], 0);  // group 1 has scale and min 0
}

TEST(KQuants, Q5KFifthBitOfEachGroup) {
  const auto v =
      Block(BP_DTYPE_Q5_K).f16(0, 1).byte(4 + 1, 1).byte(16 + 3, 0x02).byte(48 + 3, 0x50).decode();
  EXPECT_EQ(v[32 + 3], 16 + 5);
  EXPECT_EQ(v[3], 0);
}

TEST(KQuants, Q6KSignedScalesAndOffset32) {
  const auto v = Block(BP_DTYPE_Q6_K)
                     .fill(192, 16, 0xff)   // scales -1
                     .byte(64, 0x30)        // element 192: low bits 3
                     .byte(128 + 32, 0x20)  // element 192: upper bits 2 at bit 4
                     .f16(208, 1)
                     .decode();
  EXPECT_EQ(v[192], -(0x23 - 32));
  EXPECT_EQ(v[0], 32);
}

TEST(KQuants, Q8KHasAFloatScale) {
  EXPECT_EQ(Block(BP_DTYPE_Q8_K).put(0, 0.1f).byte(4 + 255, 0x80).decode()[255], 0.1f * -128);
}

TEST(IqBlocks, CodeBooksHoldTheirEnds) {
  EXPECT_EQ(kIq2XxsGrid[1], 0x080808080808082bu);
  EXPECT_EQ(kIq1Grid[1], 0xffffffffffffff01u);
  EXPECT_EQ(kIq1Grid[3], 0xffffffffffff01ffu);
  EXPECT_EQ(kIq3XxsGrid[5], 0x04040c3eu);
  EXPECT_EQ(kIq3SGrid[0], 0x01010101u);
}

TEST(IqBlocks, SignsAreAlwaysEvenlyMany) {
  for (uint32_t seven = 0; seven < 128; ++seven) {
    const uint8_t signs = even_signs(seven);
    EXPECT_EQ(signs & 127u, seven);
    EXPECT_EQ(__builtin_popcount(signs) % 2, 0);
  }
}

TEST(IqBlocks, Iq2XxsTakesScaleAndSignsFromOneWord) {
  // Group 1: entry 1 (0x2b, then 0x08 seven times), signs 1 -> elements 0 and 7, scale bits 1.
  const auto v =
      Block(BP_DTYPE_IQ2_XXS).f16(0, 8).byte(10, 1).put<uint32_t>(14, 1u | 1u << 28).decode();
  EXPECT_EQ(v[32], -3.0f * 0x2b);
  EXPECT_EQ(v[33], 3.0f * 8);
  EXPECT_EQ(v[39], -3.0f * 8);
  EXPECT_EQ(v[0], 1.0f * 8);
}

TEST(IqBlocks, Iq1ShiftsByAnEighth) {
  // Scale bits 2, shift down: 5 * (-1 - 1/8).
  const auto v = Block(BP_DTYPE_IQ1_S).f16(0, 1).put<uint16_t>(34, 0x8000 | 2 << 12).decode();
  EXPECT_EQ(v[0], -5.625f);
  EXPECT_EQ(v[32], -0.875f);
}

TEST(IqBlocks, Iq1MSpreadsItsScaleOverFourWords) {
  Block block(BP_DTYPE_IQ1_M);  // d = 1.0 = 0x3c00; scale bits of elements 16..31 are 3
  block.put<uint16_t>(52, 0xc000).put<uint16_t>(54, 0x3000).put<uint16_t>(48, 3 << 3);
  const auto v = block.byte(32, 0x08).decode();
  EXPECT_EQ(v[0], -1.125f);
  EXPECT_EQ(v[8], -0.875f);
  EXPECT_EQ(v[16], 7 * -0.875f);
}

TEST(IqBlocks, Iq4XsScaleOf32IsZero) {
  const auto v = Block(BP_DTYPE_IQ4_XS)
                     .f16(0, 1)
                     .put<uint16_t>(2, 2u << 14)
                     .byte(7, 0x10)
                     .byte(8 + 112, 0xf8)
                     .decode();
  EXPECT_EQ(v[224], 1);
  EXPECT_EQ(v[240], 113);
  EXPECT_EQ(v[0], -32 * -127);
}

TEST(TernaryBlocks, Tq1DigitsRunFromTheMostSignificant) {
  // 21120 base 3 = 2*81 + 27 + 9 + 2*3 = 204; stored as ceil(204 * 256 / 243) = 215.
  const auto v = Block(BP_DTYPE_TQ1_0).byte(0, 215).f16(52, 2).decode();
  EXPECT_THAT((std::vector<float>{v[0], v[32], v[64], v[96], v[128]}),
              testing::ElementsAre(2, 0, 0, 2, -2));
  EXPECT_EQ(v[255], -2);
}

TEST(TernaryBlocks, Tq2TwoBits) {
  const auto v = Block(BP_DTYPE_TQ2_0).byte(63, 0x81).f16(64, 3).decode();
  EXPECT_EQ(v[128 + 31], 0);
  EXPECT_EQ(v[128 + 32 + 31], -3);
  EXPECT_EQ(v[255], 3);
}

TEST(Fp4Blocks, Mxfp4ScalesByAPowerOfTwo) {
  const auto v = Block(BP_DTYPE_MXFP4).byte(0, 128).byte(1, 0xf7).byte(16, 0x10).decode();
  EXPECT_EQ(v[0], 12);
  EXPECT_EQ(v[16], -12);
  EXPECT_EQ(v[31], 1);
}

TEST(Fp4Blocks, Nvfp4ScalesOf16) {
  const auto v = Block(BP_DTYPE_NVFP4).byte(1, 0x38).byte(4 + 8, 0x72).decode();
  EXPECT_EQ(v[16], 1);
  EXPECT_EQ(v[24], 6);
  EXPECT_EQ(v[0], 0);
}

TEST(SmallBlocks, OneAndTwoBits) {
  const auto one = Block(BP_DTYPE_Q1_0).f16(0, 2).byte(17, 0x80).decode();
  EXPECT_EQ(one[127], 2);
  EXPECT_EQ(one[126], -2);
  const auto two = Block(BP_DTYPE_Q2_0).f16(0, 2).byte(17, 0xc0).decode();
  EXPECT_EQ(two[63], 4);
  EXPECT_EQ(two[62], -2);
}

}  // namespace
}  // namespace bp::reference

// Where things lie in images of KV blocks, and why one does not fit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "backplane/kv_images.hpp"
#include "sdk/conformance/support/program_builder.hpp"

namespace bp::test {
namespace {

using conformance::ProgramBuilder;
using testing::HasSubstr;
constexpr uint32_t kBlockSize = 16;

KvImages images_of(bp_kv_slot slot, bp_dtype k, bp_dtype v, uint32_t basis = BP_KV_BASIS_PLAIN,
                   uint32_t block_size = kBlockSize) {
  ProgramBuilder program;
  program.add_kv_group();
  program.add_kv_group(24);
  program.add_kv_slot(slot);
  program.add_kv_slot({1, 1, 8, 8});
  program.add_kv_slot(slot);
  program.add_state_slot(30);
  program.add_state_slot(12);
  return {ProgramView(program.build()), block_size, k, v, basis};
}

TEST(KvImages, PlanesFollowTheHeaderWithoutGaps) {
  const KvImages images = images_of({0, 2, 40, 16}, BP_DTYPE_Q8_0, BP_DTYPE_F16);
  ASSERT_EQ(images.n_groups(), 3u);
  const auto planes = images.planes(0);
  ASSERT_EQ(planes.size(), 4u);
  const uint64_t k_bytes = 2 * 34 * 2 * kBlockSize, v_bytes = 16 * 2 * 2 * kBlockSize;
  EXPECT_EQ(planes[0].row_bytes, 68u);  // two blocks of q8_0, the second not full
  EXPECT_EQ(planes[0].offset, 64u);
  EXPECT_EQ(planes[1].offset, 64 + k_bytes);
  EXPECT_TRUE(planes[1].is_value);
  EXPECT_EQ(planes[2].slot, 2u);
  EXPECT_EQ(planes[2].offset, 64 + k_bytes + v_bytes);
  EXPECT_EQ(images.image_bytes(0), (64 + 2 * (k_bytes + v_bytes) + 63) / 64 * 64);
  EXPECT_EQ(images.planes(1).size(), 2u);
  ASSERT_TRUE(images.is_state(2));
  EXPECT_EQ(images.planes(2)[1].offset, 64u + 30 * 4);
  EXPECT_EQ(images.image_bytes(2), 256u);
}

TEST(KvImages, BeginWithTheHeaderAndEndWithZeros) {
  const KvImages images = images_of({0, 2, 40, 16}, BP_DTYPE_F32, BP_DTYPE_F32);
  std::vector<uint8_t> image(images.image_bytes(2), 0xee);
  images.begin(2, image.data());
  bp_kv_image_header header;
  std::memcpy(&header, image.data(), sizeof header);
  EXPECT_EQ(std::memcmp(&header, "BPKV", 4), 0);
  EXPECT_EQ(header.image_bytes, 256u);
  EXPECT_EQ(header.group, 2u);
  EXPECT_EQ(header.n_slots, 2u);
  EXPECT_EQ(header.block_size, 0u);
  // FNV-1a of 1e 00 00 00 00 00 00 00 0c 00 00 00 00 00 00 00.
  uint64_t shape = 0xcbf29ce484222325u;
  for (int i = 0; i < 16; ++i) {
    shape = (shape ^ (i == 0 ? 30u : i == 8 ? 12u : 0u)) * 0x100000001b3u;
  }
  EXPECT_EQ(header.shape, shape);
  EXPECT_EQ(image[64], 0xee);
  EXPECT_EQ(image.back(), 0);
}

TEST(KvImages, SaySoWhereOneDoesNotFit) {
  const KvImages mine = images_of({0, 2, 16, 16}, BP_DTYPE_F16, BP_DTYPE_F16);
  const auto refusal = [&](const KvImages& other, uint32_t group = 0) {
    std::vector<uint8_t> image(std::max(mine.image_bytes(0), other.image_bytes(group)));
    other.begin(group, image.data());
    const int32_t block = 1;
    return mine.check_images(0, {&block, 1}, image).message();
  };
  EXPECT_EQ(refusal(mine), "");
  EXPECT_THAT(refusal(images_of({0, 2, 16, 16}, BP_DTYPE_BF16, BP_DTYPE_F16)),
              HasSubstr("image 0 does not fit: the type of its keys is bf16, this cache has f16"));
  EXPECT_THAT(refusal(images_of({0, 2, 16, 16}, BP_DTYPE_F16, BP_DTYPE_F32)),
              HasSubstr("the type of its values is f32"));
  EXPECT_THAT(refusal(images_of({0, 2, 16, 16}, BP_DTYPE_F16, BP_DTYPE_F16, 7)),
              HasSubstr("the basis of its keys is 7"));
  EXPECT_THAT(refusal(images_of({0, 2, 16, 16}, BP_DTYPE_F16, BP_DTYPE_F16, 0, 32)),
              HasSubstr("its block size is 32, this cache has 16"));
  EXPECT_THAT(refusal(images_of({0, 1, 32, 32}, BP_DTYPE_F16, BP_DTYPE_F16)),
              HasSubstr("its slots have other heads"));
  EXPECT_THAT(refusal(mine, 1), HasSubstr("its group is 1, this cache has 0"));
}

TEST(KvImages, CheckWhatACallNames) {
  const KvImages images = images_of({0, 2, 16, 16}, BP_DTYPE_F16, BP_DTYPE_F16);
  const std::vector<uint32_t> n_ids = {9, 9, 4};
  const std::vector<int32_t> two = {8, 1}, beyond = {9}, null = {0};
  EXPECT_TRUE(images.check_call(0, two, 2 * images.image_bytes(0), n_ids).ok());
  EXPECT_TRUE(images.check_call(2, {}, 0, n_ids).ok());
  EXPECT_THAT(images.check_call(0, two, images.image_bytes(0), n_ids).message(),
              HasSubstr("2 images of group 0 are"));
  EXPECT_THAT(images.check_call(0, beyond, images.image_bytes(0), n_ids).message(),
              HasSubstr("block id 9 is not in [1, 9)"));
  EXPECT_FALSE(images.check_call(2, null, images.image_bytes(2), n_ids).ok());
  EXPECT_FALSE(images.check_call(3, {}, 0, n_ids).ok());
  EXPECT_THAT(images.check_call(0, {}, 0, {}).message(), HasSubstr("kv_allocate"));
}

}  // namespace
}  // namespace bp::test

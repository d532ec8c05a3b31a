// Blocks as images, and back, for every type and odd widths of heads: the numbers are those that
// were stored, and every byte that kernels read comes back.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"
#include "sdk/conformance/support/program_builder.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::cpu {
namespace {

constexpr uint32_t kBlockSize = 32, kBlocks = 3, kHeads = 2;
constexpr bp_dtype kDtypes[] = {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0,
                                BP_DTYPE_Q4_0};
constexpr float kRounding[] = {0, 1e-3f, 8e-3f, 0.02f, 0.3f};  // of normal values
using Bytes = std::vector<uint8_t>;

// One slot with block 1 full of random keys and values, [position, head, dim].
struct Filled {
  Filled(KvType type, uint32_t k_dim, uint32_t v_dim)
      : shape{0, kHeads, k_dim, v_dim},
        kv({&shape, 1}, 1, kBlockSize, type, type),
        k(conformance::normal_values("k", size_t{kBlockSize} * kHeads * k_dim)),
        v(conformance::normal_values("v", size_t{kBlockSize} * kHeads * v_dim)) {
    conformance::ProgramBuilder program;
    program.add_kv_group();
    program.add_kv_slot(shape);
    const ProgramView view(program.build());
    const bp_dtype dtype = kDtypes[static_cast<int>(type)];
    images = std::make_unique<KvImages>(view, kBlockSize, dtype, dtype);
    EXPECT_TRUE(kv.allocate(std::array{kBlocks}).ok());
    for (uint32_t row = 0; row < kBlockSize * kHeads; ++row) {
      kv.store(kernels_of(Isa::kScalar), 0, row % kHeads, 1, row / kHeads,
               k.data() + size_t{row} * k_dim, v.data() + size_t{row} * v_dim);
    }
  }
  [[nodiscard]] Bytes exported(int32_t block) const {
    Bytes image(images->image_bytes(0), 0xee);
    kv.export_block(*images, 0, block, image.data());
    return image;
  }
  // What the block holds of head 0, which begins with scales where there are some.
  [[nodiscard]] Bytes kept(int32_t block) const {
    const int32_t blocks[] = {block, block};
    const KvTile tile = kv.tile(0, {blocks, 0, 0}, 0, 1);
    const auto* begin = reinterpret_cast<const uint8_t*>(tile.key_scales[0]);
    EXPECT_LE(begin, static_cast<const uint8_t*>(tile.keys[0]));
    return {begin, begin + kv.block_bytes(0) / kHeads};
  }

  bp_kv_slot shape;
  KvCache kv;
  std::vector<float> k, v;
  std::unique_ptr<KvImages> images;
};

std::vector<float> decoded(const Filled& f, const Bytes& image, bool is_value) {
  const KvImages::Plane& plane = f.images->planes(0)[is_value ? 1 : 0];
  const uint64_t n_blocks = plane.row_bytes / dtype_info(plane.dtype).block_bytes;
  std::vector<float> row(n_blocks * dtype_info(plane.dtype).block_elements), all;
  for (uint32_t r = 0; r < kBlockSize * kHeads; ++r) {
    const uint8_t* at = image.data() + plane.offset + r * plane.row_bytes;
    reference::block_decoder(plane.dtype)(at, n_blocks, row.data());
    all.insert(all.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(plane.head_dim));
    for (size_t d = plane.head_dim; d < row.size(); ++d) EXPECT_EQ(row[d], 0) << "dimension " << d;
  }
  return all;
}

void expect_near(const std::vector<float>& expected, const std::vector<float>& found, float bound) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_LE(std::fabs(expected[i] - found[i]), bound * (1 + std::fabs(expected[i]))) << i;
  }
}

class KvImage : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] static KvType type() { return static_cast<KvType>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Types, KvImage, testing::Range(0, 5), [](const auto& param) {
  return std::string(dtype_name(kDtypes[param.param]));
});

constexpr uint32_t kWidths[][2] = {{64, 64}, {16, 24}, {40, 20}, {96, 80}, {31, 33}};

TEST_P(KvImage, HoldsTheNumbersThatWereStored) {
  for (const auto& [k_dim, v_dim] : kWidths) {
    SCOPED_TRACE(std::to_string(k_dim) + " " + std::to_string(v_dim));
    const Filled f(type(), k_dim, v_dim);
    const Bytes image = f.exported(1);
    const float bound = kRounding[GetParam()];
    expect_near(f.v, decoded(f, image, true), bound);
    // Quantised keys of whole scales are turned before they are rounded.
    const bool is_turned = GetParam() >= 3 && k_dim >= kKvScaleDims;
    if (!is_turned) expect_near(f.k, decoded(f, image, false), bound);
  }
}

TEST_P(KvImage, BringsEveryByteBack) {
  for (const auto& [k_dim, v_dim] : kWidths) {
    SCOPED_TRACE(std::to_string(k_dim) + " " + std::to_string(v_dim));
    Filled f(type(), k_dim, v_dim);
    const Bytes image = f.exported(1);
    f.kv.import_block(*f.images, 0, 2, image.data());
    EXPECT_EQ(f.kept(2), f.kept(1));
    EXPECT_EQ(f.exported(2), image);
  }
}

}  // namespace
}  // namespace bp::cpu

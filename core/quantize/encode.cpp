#include "core/quantize/encode.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "backplane/dtype.hpp"
#include "backplane/reference/whole_blocks.hpp"
#include "core/quantize/encoders.hpp"

namespace bp::quantize {

namespace {

constexpr std::array<BlockEncoder, BP_DTYPE_COUNT> make_table() {
  std::array<BlockEncoder, BP_DTYPE_COUNT> t{};
#define BP_ENCODES(NAME, name) t[BP_DTYPE_##NAME] = encode_block_##name
  BP_ENCODES(F32, f32);
  BP_ENCODES(F16, f16);
  BP_ENCODES(BF16, bf16);
  BP_ENCODES(Q4_0, q4_0);
  BP_ENCODES(Q4_1, q4_1);
  BP_ENCODES(Q5_0, q5_0);
  BP_ENCODES(Q5_1, q5_1);
  BP_ENCODES(Q8_0, q8_0);
  BP_ENCODES(Q2_K, q2_K);
  BP_ENCODES(Q3_K, q3_K);
  BP_ENCODES(Q4_K, q4_K);
  BP_ENCODES(Q5_K, q5_K);
  BP_ENCODES(Q6_K, q6_K);
  BP_ENCODES(IQ2_XXS, iq2_xxs);
  BP_ENCODES(IQ2_XS, iq2_xs);
  BP_ENCODES(IQ2_S, iq2_s);
  BP_ENCODES(IQ3_XXS, iq3_xxs);
  BP_ENCODES(IQ3_S, iq3_s);
  BP_ENCODES(IQ1_S, iq1_s);
  BP_ENCODES(IQ1_M, iq1_m);
  BP_ENCODES(IQ4_NL, iq4_nl);
  BP_ENCODES(IQ4_XS, iq4_xs);
  BP_ENCODES(TQ1_0, tq1_0);
  BP_ENCODES(TQ2_0, tq2_0);
  BP_ENCODES(MXFP4, mxfp4);
  BP_ENCODES(NVFP4, nvfp4);
  BP_ENCODES(Q1_0, q1_0);
  BP_ENCODES(Q2_0, q2_0);
#undef BP_ENCODES
  return t;
}

constexpr std::array<BlockEncoder, BP_DTYPE_COUNT> kEncoders = make_table();
constexpr uint32_t kMaxBlock = 256;
constexpr float kLargestValue = 1e16f;

// Elements without any importance would be free to take any value: they count a thousandth of the
// others.
void block_weights(const float* importance, uint32_t n, float* weights) {
  float sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += importance[i];
  const float mean = sum / static_cast<float>(n);
  const bool usable = mean > 1e-20f && mean < 1e20f;
  for (uint32_t i = 0; i < n; ++i) weights[i] = usable ? importance[i] / mean + 1e-3f : 1.0f;
}

// Whether sums of the squares of a block's values are finite.
bool all_usable(const float* in, uint64_t n) {
  constexpr auto kTooLarge = std::bit_cast<uint32_t>(kLargestValue);
  uint32_t largest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(in[i]) & 0x7fffffffu);
  }
  return largest < kTooLarge;
}

}  // namespace

BlockEncoder block_encoder(bp_dtype dtype) {
  return is_known_dtype(dtype) ? kEncoders[dtype] : nullptr;
}

Status encode_row(bp_dtype dtype, const float* in, const float* importance, uint64_t n_elements,
                  void* blocks) {
  const BlockEncoder encode = block_encoder(dtype);
  if (encode == nullptr) return unsupported("no encoder for " + std::string(dtype_name(dtype)));
  BP_TRY(reference::check_whole_blocks(dtype, n_elements));
  const DtypeInfo& info = dtype_info(dtype);
  if (is_block_quantised(dtype) && !all_usable(in, n_elements)) {
    return invalid_argument("a value is no finite number, or beyond 1e16");
  }
  std::array<float, kMaxBlock> weights;
  weights.fill(1.0f);
  auto* bytes = static_cast<uint8_t*>(blocks);
  for (uint64_t i = 0; i < n_elements; i += info.block_elements, bytes += info.block_bytes) {
    if (importance != nullptr) block_weights(importance + i, info.block_elements, weights.data());
    encode(in + i, weights.data(), bytes);
  }
  return {};
}

}  // namespace bp::quantize

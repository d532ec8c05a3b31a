#include "backplane/reference/decode.hpp"

#include <array>
#include <string>

#include "backplane/dtype.hpp"
#include "backplane/reference/whole_blocks.hpp"
#include "block.hpp"
#include "decoders.hpp"

namespace bp::reference {

namespace {

template <bp_dtype kDtype, void (*kDecodeBlock)(const uint8_t*, float*)>
void decode_blocks(const uint8_t* blocks, uint64_t n_blocks, float* out) {
  constexpr DtypeInfo info = dtype_info(kDtype);
  for (uint64_t i = 0; i < n_blocks; ++i) {
    kDecodeBlock(blocks + i * info.block_bytes, out + i * info.block_elements);
  }
}

template <class T>
void decode_numbers(const uint8_t* bytes, uint64_t n, float* out) {
  for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<float>(load<T>(bytes + i * sizeof(T)));
}

template <class T, float (*kWiden)(T)>
void decode_small_floats(const uint8_t* bytes, uint64_t n, float* out) {
  for (uint64_t i = 0; i < n; ++i) out[i] = kWiden(load<T>(bytes + i * sizeof(T)));
}

constexpr std::array<BlockDecoder, BP_DTYPE_COUNT> make_table() {
  std::array<BlockDecoder, BP_DTYPE_COUNT> t{};
  t[BP_DTYPE_F32] = decode_numbers<float>;
  t[BP_DTYPE_F64] = decode_numbers<double>;
  t[BP_DTYPE_I8] = decode_numbers<int8_t>;
  t[BP_DTYPE_U8] = decode_numbers<uint8_t>;
  t[BP_DTYPE_I16] = decode_numbers<int16_t>;
  t[BP_DTYPE_I32] = decode_numbers<int32_t>;
  t[BP_DTYPE_I64] = decode_numbers<int64_t>;
  t[BP_DTYPE_F16] = decode_small_floats<uint16_t, f16_to_f32>;
  t[BP_DTYPE_BF16] = decode_small_floats<uint16_t, bf16_to_f32>;
  t[BP_DTYPE_F8_E4M3] = decode_small_floats<uint8_t, f8_e4m3_to_f32>;
  t[BP_DTYPE_F8_E5M2] = decode_small_floats<uint8_t, f8_e5m2_to_f32>;
#define BP_BLOCKS(NAME, name) \
  t[BP_DTYPE_##NAME] = decode_blocks<BP_DTYPE_##NAME, decode_block_##name>
  BP_BLOCKS(Q4_0, q4_0);
  BP_BLOCKS(Q4_1, q4_1);
  BP_BLOCKS(Q5_0, q5_0);
  BP_BLOCKS(Q5_1, q5_1);
  BP_BLOCKS(Q8_0, q8_0);
  BP_BLOCKS(Q8_1, q8_1);
  BP_BLOCKS(Q2_K, q2_K);
  BP_BLOCKS(Q3_K, q3_K);
  BP_BLOCKS(Q4_K, q4_K);
  BP_BLOCKS(Q5_K, q5_K);
  BP_BLOCKS(Q6_K, q6_K);
  BP_BLOCKS(Q8_K, q8_K);
  BP_BLOCKS(IQ2_XXS, iq2_xxs);
  BP_BLOCKS(IQ2_XS, iq2_xs);
  BP_BLOCKS(IQ2_S, iq2_s);
  BP_BLOCKS(IQ3_XXS, iq3_xxs);
  BP_BLOCKS(IQ3_S, iq3_s);
  BP_BLOCKS(IQ1_S, iq1_s);
  BP_BLOCKS(IQ1_M, iq1_m);
  BP_BLOCKS(IQ4_NL, iq4_nl);
  BP_BLOCKS(IQ4_XS, iq4_xs);
  BP_BLOCKS(TQ1_0, tq1_0);
  BP_BLOCKS(TQ2_0, tq2_0);
  BP_BLOCKS(MXFP4, mxfp4);
  BP_BLOCKS(NVFP4, nvfp4);
  BP_BLOCKS(Q1_0, q1_0);
  BP_BLOCKS(Q2_0, q2_0);
#undef BP_BLOCKS
  return t;
}

constexpr std::array<BlockDecoder, BP_DTYPE_COUNT> kDecoders = make_table();

}  // namespace

BlockDecoder block_decoder(bp_dtype dtype) {
  return is_known_dtype(dtype) ? kDecoders[dtype] : nullptr;
}

Status decode_row(bp_dtype dtype, const void* blocks, uint64_t n_elements, float* out) {
  const BlockDecoder decode = block_decoder(dtype);
  if (decode == nullptr) return unsupported("no decoder for dtype " + std::to_string(dtype));
  BP_TRY(check_whole_blocks(dtype, n_elements));
  const uint64_t n_blocks = n_elements / dtype_info(dtype).block_elements;
  decode(static_cast<const uint8_t*>(blocks), n_blocks, out);
  return {};
}

}  // namespace bp::reference

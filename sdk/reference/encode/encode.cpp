#include "backplane/reference/encode.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "backplane/dtype.hpp"
#include "backplane/half.hpp"
#include "backplane/reference/whole_blocks.hpp"

namespace bp::reference {

namespace {

constexpr int kBlock = 32;  // elements of the quantised types of this file

template <class T>
void store(uint8_t* bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
}

float inverse(float scale) {
  return scale == 0 ? 0.0f : 1.0f / scale;
}

// The element of the largest magnitude, with its sign.
float peak(const float* in) {
  return *std::max_element(in, in + kBlock,
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

uint8_t quantise(float scaled, int max) {
  return static_cast<uint8_t>(std::clamp(static_cast<int>(scaled + 0.5f), 0, max));
}

// The lower four bits: element j in the low half of byte j, element j + 16 in the high half.
void store_nibbles(const uint8_t* quants, uint8_t* bytes) {
  for (int j = 0; j < 16; ++j) {
    bytes[j] = static_cast<uint8_t>((quants[j] & 0xf) | (quants[j + 16] & 0xf) << 4);
  }
}

// A fifth bit per element, bit j of a 32-bit number.
void store_fifth_bits(const uint8_t* quants, uint8_t* bytes) {
  uint32_t bits = 0;
  for (int j = 0; j < kBlock; ++j) bits |= static_cast<uint32_t>(quants[j] >> 4) << j;
  store(bytes, bits);
}

// Quantises symmetrically: the peak falls on the lowest of 2 * half steps. Returns d.
float quantise_symmetric(const float* in, int half, uint8_t* quants) {
  const float d = peak(in) / static_cast<float>(-half);
  const float inv = inverse(d);
  for (int j = 0; j < kBlock; ++j) {
    quants[j] = quantise(in[j] * inv + static_cast<float>(half), 2 * half - 1);
  }
  return d;
}

struct Affine {
  float d;
  float min;
};

Affine quantise_affine(const float* in, int max, uint8_t* quants) {
  const auto [low, high] = std::minmax_element(in, in + kBlock);
  const float d = (*high - *low) / static_cast<float>(max);
  const float inv = inverse(d);
  for (int j = 0; j < kBlock; ++j) quants[j] = quantise((in[j] - *low) * inv, max);
  return {d, *low};
}

void encode_q4_0(const float* in, uint8_t* block) {
  uint8_t quants[kBlock];
  store(block, f32_to_f16(quantise_symmetric(in, 8, quants)));
  store_nibbles(quants, block + 2);
}

void encode_q4_1(const float* in, uint8_t* block) {
  uint8_t quants[kBlock];
  const Affine a = quantise_affine(in, 15, quants);
  store(block, f32_to_f16(a.d));
  store(block + 2, f32_to_f16(a.min));
  store_nibbles(quants, block + 4);
}

void encode_q5_0(const float* in, uint8_t* block) {
  uint8_t quants[kBlock];
  store(block, f32_to_f16(quantise_symmetric(in, 16, quants)));
  store_fifth_bits(quants, block + 2);
  store_nibbles(quants, block + 6);
}

void encode_q5_1(const float* in, uint8_t* block) {
  uint8_t quants[kBlock];
  const Affine a = quantise_affine(in, 31, quants);
  store(block, f32_to_f16(a.d));
  store(block + 2, f32_to_f16(a.min));
  store_fifth_bits(quants, block + 4);
  store_nibbles(quants, block + 8);
}

void encode_q8_0(const float* in, uint8_t* block) {
  const float d = std::fabs(peak(in)) / 127.0f;
  const float inv = inverse(d);
  store(block, f32_to_f16(d));
  for (int j = 0; j < kBlock; ++j)
    store(block + 2 + j, static_cast<int8_t>(std::round(in[j] * inv)));
}

void encode_f32(const float* in, uint8_t* bytes) {
  store(bytes, *in);
}
void encode_f16(const float* in, uint8_t* bytes) {
  store(bytes, f32_to_f16(*in));
}
void encode_bf16(const float* in, uint8_t* bytes) {
  store(bytes, f32_to_bf16(*in));
}
void encode_f8_e4m3(const float* in, uint8_t* bytes) {
  store(bytes, f32_to_f8_e4m3(*in));
}
void encode_f8_e5m2(const float* in, uint8_t* bytes) {
  store(bytes, f32_to_f8_e5m2(*in));
}

using BlockEncoder = void (*)(const float* in, uint8_t* block);

BlockEncoder block_encoder(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_F32:
      return encode_f32;
    case BP_DTYPE_F16:
      return encode_f16;
    case BP_DTYPE_BF16:
      return encode_bf16;
    case BP_DTYPE_F8_E4M3:
      return encode_f8_e4m3;
    case BP_DTYPE_F8_E5M2:
      return encode_f8_e5m2;
    case BP_DTYPE_Q4_0:
      return encode_q4_0;
    case BP_DTYPE_Q4_1:
      return encode_q4_1;
    case BP_DTYPE_Q5_0:
      return encode_q5_0;
    case BP_DTYPE_Q5_1:
      return encode_q5_1;
    case BP_DTYPE_Q8_0:
      return encode_q8_0;
    default:
      return nullptr;
  }
}

}  // namespace

Status encode_row(bp_dtype dtype, const float* in, uint64_t n_elements, void* blocks) {
  const BlockEncoder encode = block_encoder(dtype);
  if (encode == nullptr) return unsupported("no encoder for " + std::string(dtype_name(dtype)));
  BP_TRY(check_whole_blocks(dtype, n_elements));
  const DtypeInfo& info = dtype_info(dtype);
  auto* bytes = static_cast<uint8_t*>(blocks);
  for (uint64_t i = 0; i < n_elements; i += info.block_elements, bytes += info.block_bytes) {
    encode(in + i, bytes);
  }
  return {};
}

}  // namespace bp::reference

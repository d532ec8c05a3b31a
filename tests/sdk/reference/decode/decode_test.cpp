// Every block type against published values, to the last bit.

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::reference {
namespace {

std::vector<uint8_t> bytes_from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<uint32_t> float_bits(const void* floats, size_t n) {
  std::vector<uint32_t> bits(n);
  std::memcpy(bits.data(), floats, n * sizeof(float));
  return bits;
}

TEST(DecodeRow, EqualsPublishedValuesOfEveryBlockType) {
  const char* folder = std::getenv("BACKPLANE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
  std::ifstream file(std::string(folder) + "/ggml-types/dequant.json");
  ASSERT_TRUE(file) << "no ggml-types/dequant.json in " << folder;
  const nlohmann::json types = nlohmann::json::parse(file);
  ASSERT_EQ(types.size(), 27u);
  for (const auto& [name, entry] : types.items()) {
    SCOPED_TRACE(name);
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype.has_value());
    EXPECT_EQ(dtype_info(*dtype).block_elements, entry["block_elements"].get<uint32_t>());
    EXPECT_EQ(dtype_info(*dtype).block_bytes, entry["block_bytes"].get<uint32_t>());

    const auto raw = bytes_from_hex(entry["raw"].get<std::string>());
    const auto expected_bytes = bytes_from_hex(entry["values_f32_le"].get<std::string>());
    const size_t n = expected_bytes.size() / sizeof(float);
    ASSERT_EQ(row_bytes(*dtype, n), raw.size());
    std::vector<float> decoded(n);
    const Status status = decode_row(*dtype, raw.data(), n, decoded.data());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(float_bits(decoded.data(), n), float_bits(expected_bytes.data(), n));
  }
}

TEST(DecodeRow, EveryKnownDtypeHasADecoder) {
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    EXPECT_NE(block_decoder(t), nullptr) << dtype_name(t);
  }
  EXPECT_EQ(block_decoder(BP_DTYPE_NONE), nullptr);
  EXPECT_EQ(block_decoder(BP_DTYPE_COUNT), nullptr);
}

TEST(DecodeRow, RefusesUnknownTypesAndPartsOfBlocks) {
  const uint8_t block[34] = {};
  float out[32];
  EXPECT_EQ(decode_row(BP_DTYPE_COUNT, block, 32, out).code(), Code::kUnsupported);
  const Status status = decode_row(BP_DTYPE_Q8_0, block, 31, out);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "a row of 31 values is not a multiple of 32, the block of q8_0");
}

template <class T>
std::vector<float> decode_values(bp_dtype dtype, std::vector<T> values) {
  std::vector<float> out(values.size());
  const Status status = decode_row(dtype, values.data(), values.size(), out.data());
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

TEST(DecodeRow, PlainNumbers) {
  using Floats = std::vector<float>;
  EXPECT_EQ(decode_values<float>(BP_DTYPE_F32, {1.5f, -0.25f}), (Floats{1.5f, -0.25f}));
  EXPECT_EQ(decode_values<double>(BP_DTYPE_F64, {1e10, 0.1}), (Floats{1e10f, 0.1f}));
  EXPECT_EQ(decode_values<int8_t>(BP_DTYPE_I8, {-128, 127}), (Floats{-128, 127}));
  EXPECT_EQ(decode_values<uint8_t>(BP_DTYPE_U8, {0, 255}), (Floats{0, 255}));
  EXPECT_EQ(decode_values<int16_t>(BP_DTYPE_I16, {-32768, 7}), (Floats{-32768, 7}));
  EXPECT_EQ(decode_values<int32_t>(BP_DTYPE_I32, {1 << 24, -5}), (Floats{16777216, -5}));
  EXPECT_EQ(decode_values<int64_t>(BP_DTYPE_I64, {int64_t{1} << 40}), (Floats{1099511627776.0f}));
  EXPECT_EQ(decode_values<uint16_t>(BP_DTYPE_F16, {0x3c00, 0xc000}), (Floats{1, -2}));
  EXPECT_EQ(decode_values<uint16_t>(BP_DTYPE_BF16, {0x3f80, 0xc040}), (Floats{1, -3}));
  EXPECT_EQ(decode_values<uint8_t>(BP_DTYPE_F8_E4M3, {0x38, 0xfe}), (Floats{1, -448}));
  EXPECT_EQ(decode_values<uint8_t>(BP_DTYPE_F8_E5M2, {0x3c, 0xfb}), (Floats{1, -57344}));
}

}  // namespace
}  // namespace bp::reference

// Every block type on published values: the error is that of the type's own quantiser, or less.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"
#include "core/quantize/encode.hpp"

namespace bp::quantize {
namespace {

std::vector<float> floats_from_hex(const std::string& hex) {
  std::vector<uint8_t> bytes(hex.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(EncodeRow, LeavesNoMoreErrorThanPublished) {
  const char* folder = std::getenv("BACKPLANE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
  std::ifstream file(std::string(folder) + "/ggml-types/dequant.json");
  ASSERT_TRUE(file) << "no ggml-types/dequant.json in " << folder;
  const nlohmann::json types = nlohmann::json::parse(file);
  ASSERT_FALSE(types.empty());
  for (const auto& [name, entry] : types.items()) {
    SCOPED_TRACE(name);
    const auto dtype = dtype_from_name(name);
    ASSERT_TRUE(dtype.has_value());
    const auto source = floats_from_hex(entry["source_f32_le"].get<std::string>());
    const std::vector<float> ones(source.size(), 1.0f);
    std::vector<uint8_t> blocks(row_bytes(*dtype, source.size()));
    Status status = encode_row(*dtype, source.data(), ones.data(), source.size(), blocks.data());
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> decoded(source.size());
    status = reference::decode_row(*dtype, blocks.data(), source.size(), decoded.data());
    ASSERT_TRUE(status.ok()) << status.message();
    double squares = 0;
    for (size_t i = 0; i < source.size(); ++i) squares += std::pow(source[i] - decoded[i], 2);
    const double error = std::sqrt(squares / static_cast<double>(source.size()));
    const double published = entry["quantisation_rmse"].get<double>();
    EXPECT_LE(error, 1.02 * published);
    RecordProperty(name, std::to_string(error / published));
  }
}

}  // namespace
}  // namespace bp::quantize

#pragma once
// Folders and files of safetensors in tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "backplane/metadata.hpp"
#include "formats/safetensors/model.hpp"
#include "formats/safetensors/shard.hpp"
#include "tests/formats/model_folder.hpp"

namespace bp::safetensors {

// u64 length, header, data.
inline std::string file_bytes(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

// {"NAME": {...}} of one F32 tensor of n values.
inline std::string one_tensor(const std::string& name, uint64_t n) {
  return "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(n) +
         "],\"data_offsets\":[0," + std::to_string(4 * n) + "]}}";
}

using Folder = ModelFolder;

inline Result<std::unique_ptr<ModelFile>> open(const std::string& path) {
  return Model::open(Host(nullptr), path);
}

inline void expect_refused(const std::string& path, const std::string& rule,
                           Code code = Code::kInvalidArgument) {
  const auto model = open(path);
  EXPECT_EQ(model.status().code(), code) << model.status().message();
  EXPECT_THAT(model.status().message(), testing::HasSubstr(rule));
  EXPECT_LT(model.status().message().size(), 480u);
}

}  // namespace bp::safetensors

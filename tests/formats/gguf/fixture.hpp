#pragma once
// Opens GGUF bytes and files in tests.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "formats/gguf/model.hpp"
#include "formats/gguf/part.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"
#include "tests/support/gguf_builder.hpp"

namespace bp::gguf {

using bp::test::GgufBuilder;
using bp::test::GgufBytes;
using bp::test::GgufTensor;

// Reads a file of these bytes as a single part, in memory of exactly that size so that
// AddressSanitizer sees each read beyond the end.
inline Status read_bytes(const std::string& bytes) {
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  return read_part(HeaderBytes::of_memory("test.gguf", exact)).status();
}

// The status of broken bytes, whose message must begin with the file and the offset.
inline void expect_refused(const std::string& bytes, uint64_t offset, const std::string& rule,
                           Code code = Code::kInvalidArgument) {
  const Status status = read_bytes(bytes);
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_THAT(status.message(),
              testing::StartsWith("test.gguf: offset " + std::to_string(offset) + ": "));
  EXPECT_THAT(status.message(), testing::HasSubstr(rule));
}

inline void expect_accepted(const std::string& bytes) {
  const Status status = read_bytes(bytes);
  EXPECT_TRUE(status.ok()) << status.message();
}

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_FALSE(folder_.path().empty()); }

  [[nodiscard]] std::string file(const std::string& name) const { return folder_.path() / name; }
  // Writes a file, then lets it grow to n_bytes without taking space on the disk.
  std::string write(const std::string& name, const std::string& bytes, uint64_t n_bytes = 0) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    if (n_bytes > bytes.size()) std::filesystem::resize_file(file(name), n_bytes);
    return file(name);
  }

 private:
  conformance::TemporaryFolder folder_{"gguf"};
};

}  // namespace bp::gguf

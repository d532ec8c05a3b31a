#pragma once
// A folder for a model's files in tests.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp {

class ModelFolder {
 public:
  ModelFolder() { EXPECT_FALSE(folder_.path().empty()); }
  [[nodiscard]] std::string path() const { return folder_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.path() / name; }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

 private:
  conformance::TemporaryFolder folder_{"model"};
};

}  // namespace bp

#include "tests/core/model/support/test_models.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "tests/support/gguf_fixture.hpp"

namespace bp::model::test {

namespace fs = std::filesystem;

namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Written beside its place and renamed, since tests run at the same time.
Status make_model(const std::string& shape, const std::string& type, const fs::path& path) {
  const fs::path tool = testing::test_data() / ".." / "tools" / "synth_model.py";
  const fs::path part = path.string() + "." + std::to_string(getpid());
  const std::string command = "/usr/bin/python3 '" + tool.string() + "' --shape " + shape +
                              " --type " + type + " --seed 0 --out '" + part.string() + "'";
  if (std::system(command.c_str()) != 0) return io_error("failed: " + command);
  fs::rename(part, path);
  return {};
}

}  // namespace

Result<std::string> test_model(const std::string& name) {
  const std::string stories = "stories260k";
  if (name.starts_with(stories)) {
    return (testing::test_data() / stories / (name + ".gguf")).string();
  }
  const char* build = std::getenv("BACKPLANE_BUILD_DIR");
  const fs::path folder = fs::path(build == nullptr ? "." : build) / "tests" / "models";
  fs::create_directories(folder);
  const fs::path path = folder / (name + ".gguf");
  if (!fs::exists(path)) {
    const size_t seed = name.find("-0-");
    BP_TRY(make_model(name.substr(0, seed), upper(name.substr(seed + 3)), path));
  }
  return path.string();
}

}  // namespace bp::model::test

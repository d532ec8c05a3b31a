#pragma once
// Opens GGUF files in tests through the built format plugin, by the public ABI alone. Link
// ${CMAKE_DL_LIBS} and depend on the target `gguf`.

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "backplane/format.h"
#include "backplane/status.hpp"

namespace bp::testing {

// The folder of shared test data, empty when BACKPLANE_TEST_DATA is unset.
inline std::filesystem::path test_data() {
  const char* folder = std::getenv("BACKPLANE_TEST_DATA");
  return folder == nullptr ? "" : folder;
}

inline const bp_format* gguf_format() {
  static const bp_format* const format = []() -> const bp_format* {
    const char* build = std::getenv("BACKPLANE_BUILD_DIR");
    const std::string path = std::string(build == nullptr ? "." : build) + "/lib/backplane/gguf.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) return nullptr;
    const auto query = reinterpret_cast<bp_plugin_query_fn>(dlsym(library, "bp_plugin_query"));
    const bp_plugin* plugin = query == nullptr ? nullptr : query(BP_ABI_MAJOR);
    return plugin == nullptr ? nullptr
                             : static_cast<const bp_format*>(plugin->get_factory(BP_FORMAT_ID));
  }();
  return format;
}

class GgufFile {
 public:
  static Result<GgufFile> open(const std::filesystem::path& path) {
    const bp_format* format = gguf_format();
    if (format == nullptr) return io_error("the gguf plugin is not built");
    static const bp_host host = {sizeof(bp_host), BP_ABI_MINOR, nullptr,
                                 [](void*, uint32_t, bp_str) {},
                                 [](void*, const char*) -> const void* { return nullptr; }};
    bp_error error{};
    bp_model_file* file = nullptr;
    const std::string absolute = std::filesystem::absolute(path).string();
    if (format->open(&host, absolute.c_str(), &file, &error) != BP_OK) {
      return invalid_argument(error.message);
    }
    return GgufFile(file);
  }

  [[nodiscard]] const bp_model_file& model() const { return *file_; }
  [[nodiscard]] std::span<const bp_metadata> metadata() const {
    return {file_->metadata, file_->n_metadata};
  }

 private:
  struct Close {
    void operator()(bp_model_file* file) const { gguf_format()->close(file); }
  };
  explicit GgufFile(bp_model_file* file) : file_(file) {}

  std::unique_ptr<bp_model_file, Close> file_;
};

}  // namespace bp::testing

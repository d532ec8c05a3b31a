#pragma once
// A folder of its own under the system's temporary one, which goes away with the object.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace bp::conformance {

class TemporaryFolder {
 public:
  // Begins with `name`.
  explicit TemporaryFolder(const std::string& name) {
    std::string made = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
    if (mkdtemp(made.data()) != nullptr) path_ = made;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Empty where no folder could be made.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace bp::conformance

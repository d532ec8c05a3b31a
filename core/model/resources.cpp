#include "core/model/resources.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace bp::model {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> folders_of(const char* variable) {
  std::vector<std::string> folders;
  const char* value = std::getenv(variable);
  std::istringstream in(value == nullptr ? "" : value);
  for (std::string folder; std::getline(in, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

}  // namespace

ResourceFolders default_resource_folders() {
  ResourceFolders out;
  out.architectures = folders_of("BACKPLANE_ARCHITECTURES");
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path share = program.parent_path().parent_path() / "share" / "backplane";
  const fs::path source = BACKPLANE_SOURCE_DIR;
  const bool installed = fs::is_directory(share / "configs" / "architectures", error);
  out.architectures.push_back(
      (installed ? share / "configs" / "architectures" : source / "configs" / "architectures")
          .string());
  out.ops = (installed ? share / "ops" : source / "sdk" / "ops").string();
  return out;
}

}  // namespace bp::model

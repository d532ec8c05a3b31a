#include "core/runtime/plugin_folders.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "core/plugin/catalog.hpp"

namespace bp::runtime {

std::vector<std::string> plugin_folders(const std::vector<std::string>& more) {
  std::vector<std::string> folders = more;
  const auto add_if_folder = [&](const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) folders.push_back(path);
  };
  if (const char* path = std::getenv("BACKPLANE_PLUGIN_PATH")) {
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');) add_if_folder(folder);
  }
  add_if_folder(plugin::installed_plugin_folder());
  return folders;
}

}  // namespace bp::runtime

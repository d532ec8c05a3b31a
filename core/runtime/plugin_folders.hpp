#pragma once
// Where plugins are looked for.

#include <string>
#include <vector>

namespace bp::runtime {

// `more` (from a configuration) first, then the folders of BACKPLANE_PLUGIN_PATH (separated by
// ':'), then the installed one. Folders that do not exist are left out of the last two.
std::vector<std::string> plugin_folders(const std::vector<std::string>& more);

}  // namespace bp::runtime

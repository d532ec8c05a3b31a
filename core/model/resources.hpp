#pragma once
// Where the files are found that the program needs beside its code.

#include <string>
#include <vector>

namespace bp::model {

struct ResourceFolders {
  std::vector<std::string> architectures;  // in order of precedence
  std::string ops;                         // the op specs
};

// $BACKPLANE_ARCHITECTURES (folders separated by ':') first; then share/backplane beside the
// running program's bin folder where installed, else the source tree it was built from.
ResourceFolders default_resource_folders();

}  // namespace bp::model

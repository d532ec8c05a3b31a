#pragma once
// Which file to give the dynamic loader, so that it gives back the code that is in it now (A12).

#include <string>

#include "backplane/status.hpp"

namespace bp::plugin {

// The path itself, unless this process has loaded another file under it that has been replaced
// since: the loader, which goes by names, would answer with the old code. Then the path of a
// private copy in memory, named by its content, that lasts as long as the process. A file must be
// replaced as linkers and installers do, by a new one: what is written into a loaded file changes
// the running code itself. [any-thread]
Result<std::string> path_of_current_code(const std::string& path);

}  // namespace bp::plugin

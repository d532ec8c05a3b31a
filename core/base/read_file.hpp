#pragma once
// Files and pipes as a whole, within a limit: what never ends, as /dev/zero does, is refused. Every
// error names the input.

#include <cstdint>
#include <string>

#include "backplane/status.hpp"

namespace bp::base {

// A pipe's bytes, too; but one that nobody writes to is not waited for.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes);
// What comes from an open file, which errors call `name`.
Result<std::string> read_open_file(int fd, const std::string& name, uint64_t max_bytes);
// For what is read more than once, or is found in a folder: no pipe, no device. A file that is
// not there passes; who opens it says so.
Status expect_regular_file(const std::string& path);

}  // namespace bp::base

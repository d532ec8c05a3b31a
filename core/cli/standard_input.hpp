#pragma once
// All of standard input, byte for byte.

#include <string>

#include "backplane/status.hpp"

namespace bp::cli {

// At most 1 GiB.
Result<std::string> read_standard_input();

}  // namespace bp::cli

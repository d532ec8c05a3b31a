#pragma once
// All of standard input.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backplane/status.hpp"

namespace bp::cli {

// Byte for byte, at most 1 GiB.
Result<std::string> read_standard_input();
// As JSON, at most 64 levels deep.
Result<nlohmann::ordered_json> read_standard_json();

}  // namespace bp::cli

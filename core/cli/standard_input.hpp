#pragma once
// All of standard input.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "backplane/status.hpp"

namespace bp::cli {

// The most that is read of it, or of a file of text.
constexpr uint64_t kMaxInputBytes = 1u << 30;

// Byte for byte.
Result<std::string> read_standard_input();
// As JSON, at most 64 levels deep.
Result<nlohmann::ordered_json> read_standard_json();

}  // namespace bp::cli

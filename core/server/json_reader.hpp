#pragma once
// JSON that nobody vouches for, strictly: valid UTF-8, no key twice in an object, bounded in depth
// and in the number of values.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "backplane/status.hpp"

namespace bp::server {

struct JsonLimits {
  size_t depth = 64;
  size_t n_values = 1'000'000;
};

Result<nlohmann::ordered_json> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace bp::server

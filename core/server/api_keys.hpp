#pragma once
// Who may ask.

#include <optional>
#include <string_view>
#include <vector>

#include "core/config/config.hpp"
#include "core/server/text_call.hpp"

namespace bp::server {

// Takes the time of a comparison with the whole text, wherever the first difference is.
bool equal_in_constant_time(std::string_view given, std::string_view expected);

// The caller behind an Authorization header ("Bearer KEY"); null for a wrong or missing key.
// Without keys everybody is the nameless caller.
std::optional<Caller> find_caller(const std::vector<config::ApiKey>& keys,
                                  std::string_view authorization);

}  // namespace bp::server

#pragma once
// A tree of JSON that nobody vouches for, strictly: valid UTF-8, no member twice in an object,
// bounded in depth and in the number of values. An error says where the text breaks off.

#include <cstddef>
#include <string_view>

#include "backplane/status.hpp"

namespace bp::base {

struct JsonLimits {
  size_t depth = 64;
  size_t n_values = 1'000'000;
};

// nlohmann::json, or nlohmann::ordered_json for members in the text's order.
template <class Tree>
Result<Tree> parse_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace bp::base

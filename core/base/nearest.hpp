#pragma once
// "did you mean": the known name with the smallest edit distance.

#include <string>
#include <string_view>
#include <vector>

namespace bp::base {

// Empty where no name is near enough to be a likely typing mistake.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// "; nearest: NAME", or empty.
std::string nearest_suggestion(std::string_view name, const std::vector<std::string>& known);

// "; nearest: NAME", or " (known: a, b, c)" where none is near and there are at most 12, else "".
std::string nearest_hint(std::string_view name, const std::vector<std::string>& known);

}  // namespace bp::base

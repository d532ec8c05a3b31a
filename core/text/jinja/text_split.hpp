#pragma once
// str.split and str.rsplit, over UTF-8. The pieces point into `text`.

#include <cstddef>
#include <string_view>
#include <vector>

namespace bp::text::jinja {

// At most `limit` cuts. Without a separator: at runs of white space, none at the ends.
std::vector<std::string_view> split_words(std::string_view text, size_t limit, bool from_right);
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator,
                                         size_t limit, bool from_right);

}  // namespace bp::text::jinja

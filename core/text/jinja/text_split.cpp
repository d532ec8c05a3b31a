#include "core/text/jinja/text_split.hpp"

#include <algorithm>

#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

// Byte ranges of the words.
std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  text = strip(text);
  size_t begin = 0;
  bool inside = true;
  for (size_t i = 0; i < text.size();) {
    const size_t n = utf8_length(static_cast<unsigned char>(text[i]));
    const bool space = is_space(decode(text.substr(i, n))[0]);
    if (space && inside) out.push_back(text.substr(begin, i - begin));
    if (!space && !inside) begin = i;
    inside = !space;
    i += n;
  }
  if (!text.empty()) out.push_back(text.substr(begin));
  return out;
}

// From the start of `first` to the end of `last`, both within one text.
std::string_view spanning(std::string_view first, std::string_view last) {
  return {first.data(), static_cast<size_t>(last.data() + last.size() - first.data())};
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text, size_t limit, bool from_right) {
  auto all = words(text);
  if (limit >= all.size()) return all;
  // The side where cutting stopped keeps its outer white space.
  const std::string_view kept = strip(text, from_right ? Side::kRight : Side::kLeft);
  const auto n = static_cast<std::ptrdiff_t>(limit);
  if (from_right) {
    const std::string_view head = spanning(kept, all[all.size() - limit - 1]);
    all.erase(all.begin(), all.end() - n);
    all.insert(all.begin(), head);
  } else {
    const std::string_view tail = spanning(all[limit], kept);
    all.resize(limit);
    all.push_back(tail);
  }
  return all;
}

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator,
                                         size_t limit, bool from_right) {
  std::vector<std::string_view> out;
  if (!from_right) {
    size_t begin = 0;
    for (size_t hit; out.size() < limit &&
                     (hit = find_first(text, separator, begin)) != std::string_view::npos;) {
      out.push_back(text.substr(begin, hit - begin));
      begin = hit + separator.size();
    }
    out.push_back(text.substr(begin));
    return out;
  }
  const std::string reversed(text.rbegin(), text.rend());
  const std::string mirror(separator.rbegin(), separator.rend());
  for (const auto& piece : split_text(reversed, mirror, limit, false)) {
    const auto offset = static_cast<size_t>(piece.data() - reversed.data());
    out.push_back(text.substr(text.size() - offset - piece.size(), piece.size()));
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace bp::text::jinja

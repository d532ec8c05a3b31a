#include "core/text/huggingface/charsmap.hpp"

#include <algorithm>
#include <cstring>

#include "core/text/utf8.hpp"

namespace bp::text::huggingface {
namespace {

// A unit of the trie, by the layout of the darts-clone library.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7fffffff;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000ff;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & 1u << 9) >> 6);
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) return invalid_argument("a charsmap of too few bytes");
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  if (trie_bytes > bytes.size() - sizeof trie_bytes || trie_bytes % 4 != 0 || trie_bytes == 0) {
    return invalid_argument("a charsmap whose trie has " + std::to_string(trie_bytes) + " of its " +
                            std::to_string(bytes.size()) + " bytes");
  }
  Charsmap map;
  map.trie_.resize(trie_bytes / 4);
  std::memcpy(map.trie_.data(), bytes.data() + sizeof trie_bytes, trie_bytes);
  map.replacements_ = bytes.substr(sizeof trie_bytes + trie_bytes);
  for (size_t at = 0; at < map.replacements_.size();) {
    const size_t end = std::min(map.replacements_.find('\0', at), map.replacements_.size());
    if (end - at > kMaxReplacementBytes) {
      return invalid_argument("a charsmap with a replacement of " + std::to_string(end - at) +
                              " bytes; allowed are " + std::to_string(kMaxReplacementBytes));
    }
    at = end + 1;
  }
  return map;
}

Charsmap::Match Charsmap::longest_match(std::string_view text) const {
  Match match{0, {}};
  size_t node = offset_of(trie_[0]);
  const size_t longest = std::min(text.size(), kMaxTextBytes);
  for (size_t i = 0; i < longest; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= trie_.size() || label_of(trie_[node]) != byte) break;
    const uint32_t unit = trie_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) break;
    const size_t at = value_of(trie_[node]);
    if (at >= replacements_.size()) break;
    match = {i + 1, replacements_.c_str() + at};
  }
  return match;
}

std::string Charsmap::apply(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const Match match = longest_match(text);
    const size_t size =
        match.size > 0 ? match.size : decode_utf8(text.data(), text.data() + text.size()).size;
    out.append(match.size > 0 ? match.replacement : text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

Result<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (c == '=') break;
    if (digit == std::string_view::npos) return invalid_argument("a text that is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> n_bits));
  }
  return bytes;
}

}  // namespace bp::text::huggingface

#include "core/text/huggingface/charsmap.hpp"

#include <algorithm>
#include <cstring>

#include "core/text/huggingface/graphemes.hpp"
#include "core/text/huggingface/growth.hpp"
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

size_t character_size(std::string_view text) {
  return decode_utf8(text.data(), text.data() + text.size()).size;
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

template <class Each>
void Charsmap::for_each_match(std::string_view text, const Each& each) const {
  size_t node = offset_of(trie_[0]);
  const size_t longest = std::min(text.size(), kMaxTextBytes);
  for (size_t i = 0; i < longest; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= trie_.size() || label_of(trie_[node]) != byte) return;
    const uint32_t unit = trie_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) return;
    const size_t at = value_of(trie_[node]);
    if (at >= replacements_.size() || !each(Match{i + 1, replacements_.c_str() + at})) return;
  }
}

Charsmap::Match Charsmap::longest_match(std::string_view text) const {
  Match longest{0, {}};
  for_each_match(text, [&](const Match& match) {
    longest = match;
    return true;
  });
  return longest;
}

Charsmap::Match Charsmap::shortest_match(std::string_view text) const {
  Match shortest{0, {}};
  for_each_match(text, [&](const Match& match) {
    shortest = match;
    return false;
  });
  return shortest;
}

std::string Charsmap::apply(std::string_view text, size_t max_bytes) const {
  std::string out;
  while (!text.empty()) {
    const Match match = out.size() < max_bytes ? longest_match(text) : Match{};
    const size_t size = match.size > 0 ? match.size : character_size(text);
    out.append(match.size > 0 ? match.replacement : text.substr(0, size));
    text.remove_prefix(size);
  }
  return out;
}

std::string Charsmap::apply_to_graphemes(std::string_view text, size_t max_bytes) const {
  constexpr size_t kMaxGraphemeBytes = 5;
  std::string out;
  while (!text.empty()) {
    const size_t end = grapheme_size(text);
    const bool is_short = end <= kMaxGraphemeBytes && out.size() < max_bytes;
    const Match whole = is_short ? shortest_match(text.substr(0, end)) : Match{};
    if (whole.size > 0) out.append(whole.replacement);
    for (size_t at = whole.size > 0 ? end : 0; at < end;) {
      const std::string_view character = text.substr(at, character_size(text.substr(at)));
      const Match match = out.size() < max_bytes ? shortest_match(character) : Match{};
      out.append(match.size > 0 ? match.replacement : character);
      at += character.size();
    }
    text.remove_prefix(end);
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

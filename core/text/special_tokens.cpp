#include "core/text/special_tokens.hpp"

#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "core/text/char_classes.hpp"
#include "core/text/utf8.hpp"

namespace bp::text {
namespace {

// As in Unicode's annex on regular expressions.
bool is_word_char(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  return u_hasBinaryProperty(point, UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL) != 0 ||
         (U_GET_GC_MASK(point) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool word_begins_at(std::string_view text, size_t at) {
  if (at == text.size()) return false;
  const Utf8Char c = decode_utf8(text.data() + at, text.data() + text.size());
  return c.form == Utf8Form::kValid && is_word_char(c.value);
}

// Where the character before `at` begins. Precondition: from < at.
size_t character_before(std::string_view text, size_t from, size_t at) {
  do {
    --at;
  } while (at > from && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool word_ends_at(std::string_view text, size_t at) {
  return at > 0 && word_begins_at(text, character_before(text, 0, at));
}

// Where the white space that ends at `at` begins, not before `from`.
size_t space_before(std::string_view text, size_t from, size_t at) {
  while (at > from) {
    const size_t before = character_before(text, from, at);
    const auto c = CharClasses::get().at(text.data() + before, text.data() + at);
    if ((c.classes & char_class::kSpace) == 0) break;
    at = before;
  }
  return at;
}

}  // namespace

Result<SpecialTokens> SpecialTokens::create(const Vocabulary& vocabulary) {
  SpecialTokens special;
  const auto flags_of = [&](int32_t id) {
    const auto found = std::ranges::lower_bound(vocabulary.added, id, {}, &AddedToken::id);
    return found != vocabulary.added.end() && found->id == id ? *found : AddedToken{id};
  };
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    const TokenType type = vocabulary.type(id);
    if (!is_matched_whole(type)) continue;
    const AddedToken flags = flags_of(id);
    if (flags.matches_normalized) continue;
    BP_TRY(
        special.add(vocabulary.tokens[static_cast<size_t>(id)], id, is_control_type(type), flags));
  }
  return special;
}

Status SpecialTokens::add(std::string_view text, int32_t id, bool is_control,
                          const AddedToken& flags) {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument(
        fmt::format("token {} is a special token of {} bytes, at most {} are allowed", id,
                    text.size(), kMaxTextBytes));
  }
  if (!text.empty()) insert(text, id, is_control, flags);
  return {};
}

void SpecialTokens::insert(std::string_view text, int32_t id, bool is_control,
                           const AddedToken& flags) {
  uint32_t node = 0;
  for (const char byte : text) {
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    node = next;
    nodes_[node].leads_to_control |= is_control;
  }
  if (nodes_[node].id != kNoToken) return;
  nodes_[node].id = id;
  nodes_[node].is_control = is_control;
  nodes_[node].takes_space_before = flags.takes_space_before;
  nodes_[node].takes_space_behind = flags.takes_space_behind;
  nodes_[node].is_word = flags.is_word;
  const auto first = static_cast<uint8_t>(text[0]);
  begins_any_[first] = true;
  if (!is_control) begins_user_defined_[first] = true;
}

// The root is nobody's child: 0 means none.
uint32_t SpecialTokens::child(uint32_t node, char byte) const {
  for (const auto& [label, next] : nodes_[node].children) {
    if (label == byte) return next;
  }
  return 0;
}

SpecialTokens::Match SpecialTokens::longest_at(std::string_view text, size_t begin,
                                               bool control) const {
  Match match{begin, 0, kNoToken};
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == 0) break;
    const Node& n = nodes_[node];
    if (n.id != kNoToken && (control || !n.is_control)) match = {begin, i + 1 - begin, n.id, node};
  }
  return match;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, bool control, size_t from,
                                         std::span<const size_t> plain_at) const {
  const auto& begins = control ? begins_any_ : begins_user_defined_;
  for (size_t i = from; i < text.size(); ++i) {
    if (!begins[static_cast<uint8_t>(text[i])]) continue;
    const bool is_plain = std::ranges::binary_search(plain_at, i);
    const Match match = longest_at(text, i, control && !is_plain);
    if (match.id == kNoToken) continue;
    const Match whole = with_surroundings(text, from, match);
    if (whole.id != kNoToken) return whole;
    i += match.size - 1;
  }
  return {text.size(), 0, kNoToken};
}

SpecialTokens::Match SpecialTokens::with_surroundings(std::string_view text, size_t from,
                                                      Match match) const {
  const Node& node = nodes_[match.node];
  const size_t end = match.begin + match.size;
  if (node.is_word && (word_ends_at(text, match.begin) || word_begins_at(text, end))) {
    return {match.begin, match.size, kNoToken};
  }
  if (node.takes_space_behind) {
    const char* const p = text.data() + end;
    const char* const behind =
        CharClasses::get().skip<true>(p, text.data() + text.size(), char_class::kSpace);
    match.size += static_cast<size_t>(behind - p);
  }
  if (node.takes_space_before) {
    const size_t begin = space_before(text, from, match.begin);
    match.size += match.begin - begin;
    match.begin = begin;
  }
  return match;
}

bool SpecialTokens::control_text_begins_at(std::string_view text, size_t begin) const {
  uint32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == 0 || !nodes_[node].leads_to_control) return false;
    if (nodes_[node].id != kNoToken && nodes_[node].is_control) return true;
  }
  return node != 0;
}

void SpecialTokens::find_control_texts(std::string_view text, std::vector<size_t>& offsets) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (begins_any_[static_cast<uint8_t>(text[i])] && control_text_begins_at(text, i)) {
      offsets.push_back(i);
    }
  }
}

}  // namespace bp::text

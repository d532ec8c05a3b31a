#include "core/text/special_tokens.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bp::text {

Result<SpecialTokens> SpecialTokens::create(const Vocabulary& vocabulary) {
  SpecialTokens special;
  for (int32_t id = 0; id < vocabulary.n_tokens(); ++id) {
    const TokenType type = vocabulary.type(id);
    if (!is_matched_whole(type)) continue;
    const std::string& text = vocabulary.tokens[static_cast<size_t>(id)];
    if (text.size() > kMaxTextBytes) {
      return invalid_argument(fmt::format(
          "tokenizer.ggml.tokens[{}] is a special token of {} bytes, at most {} are allowed", id,
          text.size(), kMaxTextBytes));
    }
    if (!text.empty()) special.insert(text, id, is_control_type(type));
  }
  return special;
}

void SpecialTokens::insert(std::string_view text, int32_t id, bool is_control) {
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
    if (n.id != kNoToken && (control || !n.is_control)) match = {begin, i + 1 - begin, n.id};
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
    if (match.id != kNoToken) return match;
  }
  return {text.size(), 0, kNoToken};
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

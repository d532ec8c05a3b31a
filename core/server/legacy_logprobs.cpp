#include "core/server/legacy_logprobs.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/server/json_text.hpp"

namespace bp::server {

namespace {

template <class F>
void append_array(std::string_view name, std::span<const LegacyLogprob> entries, std::string& out,
                  F&& append_entry) {
  out += '"';
  out += name;
  out += "\":[";
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out += ',';
    append_entry(entries[i]);
  }
  out += ']';
}

// An object from the texts of tokens, best first; of tokens with the same text the best stands.
void append_top(const engine::PositionLogprobs& position, const text::Tokenizer& tokenizer,
                std::string& out) {
  std::vector<engine::TokenLogprob> tokens = position.top;
  const int32_t chosen = position.chosen.token;
  if (std::ranges::find(tokens, chosen, &engine::TokenLogprob::token) == tokens.end()) {
    tokens.push_back(position.chosen);
  }
  std::vector<std::string> texts;
  out += '{';
  for (const engine::TokenLogprob& token : tokens) {
    std::string text = json_string(tokenizer.token_bytes(token.token, true));
    if (std::ranges::find(texts, text) != texts.end()) continue;
    if (!texts.empty()) out += ',';
    out += text;
    out += ':';
    append_logprob(token.logprob, out);
    texts.push_back(std::move(text));
  }
  out += '}';
}

}  // namespace

uint64_t TextOffsets::push(int32_t token) {
  const uint64_t begin = end_ + (detokenizer_.has_incomplete_character() ? 1 : 0);
  end_ += count_characters(detokenizer_.append(token));
  return begin;
}

uint64_t count_characters(std::string_view text) {
  return static_cast<uint64_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

void append_legacy_logprobs(std::span<const LegacyLogprob> entries,
                            const text::Tokenizer& tokenizer, std::string& out) {
  out += '{';
  append_array("tokens", entries, out, [&](const LegacyLogprob& e) {
    append_string(tokenizer.token_bytes(e.token, true), out);
  });
  out += ',';
  append_array("token_logprobs", entries, out, [&](const LegacyLogprob& e) {
    if (e.logprobs == nullptr) {
      out += "null";
    } else {
      append_logprob(e.logprobs->chosen.logprob, out);
    }
  });
  out += ',';
  append_array("top_logprobs", entries, out, [&](const LegacyLogprob& e) {
    if (e.logprobs == nullptr) {
      out += "null";
    } else {
      append_top(*e.logprobs, tokenizer, out);
    }
  });
  out += ',';
  append_array("text_offset", entries, out,
               [&](const LegacyLogprob& e) { append_number(e.offset, out); });
  out += '}';
}

}  // namespace bp::server

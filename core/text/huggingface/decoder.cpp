#include "core/text/huggingface/decoder.hpp"

#include "core/text/byte_alphabet.hpp"
#include "core/text/huggingface/growth.hpp"
#include "core/text/huggingface/json_fields.hpp"

namespace bp::text::huggingface {

Result<Decoder> Decoder::parse(const Json* json) {
  Decoder decoder;
  if (json == nullptr) {
    decoder.words_are_apart_ = true;
    decoder.drops_leading_space_ = true;
    return decoder;
  }
  BP_TRY(for_each_step(*json, "decoders", [&](const Json& step) { return decoder.add(step); }));
  return decoder;
}

Status Decoder::add(const Json& step) {
  const std::string type = type_of(step);
  if (type == "ByteLevel") {
    is_byte_level_ = true;
  } else if (type == "Replace") {
    BP_ASSIGN(Pattern pattern, Pattern::parse(step));
    BP_ASSIGN(std::string content, replacement_of(step, "content"));
    replacements_.push_back({std::move(pattern), std::move(content)});
  } else if (type == "Metaspace") {
    const std::string scheme = text_of(
        step, "prepend_scheme", flag_of(step, "add_prefix_space", true) ? "always" : "never");
    replacements_.push_back({Pattern::of_text(text_of(step, "replacement", "\xE2\x96\x81")), " "});
    drops_leading_space_ = scheme != "never";
  } else if (type == "Strip") {
    drops_leading_space_ = text_of(step, "content", " ") == " " && number_of(step, "start", 0) > 0;
  } else if (type == "WordPiece") {
    continuation_ = text_of(step, "prefix", "##");
    words_are_apart_ = drops_leading_space_ = true;
  } else if (type == "BPEDecoder") {
    replacements_.push_back({Pattern::of_text(text_of(step, "suffix", "</w>")), " "});
  } else if (type != "ByteFallback" && type != "Fuse") {
    return unknown_type("a decoder", type);
  }
  return {};
}

std::string Decoder::render(std::string_view token, TokenType type) const {
  if (type == TokenType::kByte) return {static_cast<char>(*parse_byte_token(token))};
  if (is_matched_whole(type)) return std::string(token);
  if (is_byte_level_) return bytes_of_alphabet(token);
  if (words_are_apart_) {
    const bool continues = !continuation_.empty() && token.starts_with(continuation_);
    return continues ? std::string(token.substr(continuation_.size()))
                     : std::string(1, ' ').append(token);
  }
  const size_t max_bytes = kMaxGrowth * (token.size() + 1);
  std::string text(token);
  for (const Replacement& replacement : replacements_) {
    text = replacement.pattern.replace(text, replacement.content, max_bytes);
  }
  return text;
}

}  // namespace bp::text::huggingface

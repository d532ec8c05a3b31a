#include "core/text/tokenizer.hpp"

#include <fmt/format.h>

#include "core/text/byte_bpe.hpp"
#include "core/text/detokenizer.hpp"
#include "core/text/huggingface/character_bpe.hpp"
#include "core/text/huggingface/gguf_unigram.hpp"
#include "core/text/huggingface/tokenizer.hpp"
#include "core/text/sentencepiece.hpp"
#include "core/text/wordpiece.hpp"

namespace bp::text {
namespace {

// Offsets within one text have 32 bits; longer texts are cut.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(Vocabulary vocabulary) {
  BP_TRY(check_vocabulary(vocabulary));
  if (vocabulary.huggingface == nullptr && huggingface::is_character_bpe(vocabulary)) {
    BP_TRY(huggingface::make_character_bpe(vocabulary));
  }
  if (vocabulary.huggingface == nullptr && vocabulary.model == "t5") {
    BP_TRY(huggingface::make_gguf_unigram(vocabulary));
  }
  if (vocabulary.huggingface != nullptr) return create_huggingface(std::move(vocabulary));
  if (vocabulary.model == "llama") return create_sentencepiece(std::move(vocabulary));
  if (vocabulary.model == "gpt2") return create_byte_bpe(std::move(vocabulary));
  if (vocabulary.model == "bert") return create_wordpiece(std::move(vocabulary));
  return unsupported(
      fmt::format("tokenizer.ggml.model is \"{}\"; known are llama, gpt2, gemma4, whitespace, "
                  "bert, t5",
                  vocabulary.model));
}

Tokenizer::Tokenizer(Parts parts)
    : vocabulary_(std::move(parts.vocabulary)),
      special_(std::move(parts.special)),
      token_bytes_(std::move(parts.token_bytes)),
      adds_leading_space_(parts.adds_leading_space),
      adds_space_behind_special_(parts.adds_space_behind_special),
      prefix_(vocabulary_.prefix),
      suffix_(vocabulary_.suffix) {
  if (prefix_.empty() && vocabulary_.add_bos) prefix_ = {vocabulary_.bos};
  if (!suffix_.empty()) return;
  if (vocabulary_.add_sep) suffix_.push_back(vocabulary_.sep);
  if (vocabulary_.add_eos) suffix_.push_back(vocabulary_.eos);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<int32_t> ids;
  const auto append = [&](const std::vector<int32_t>& more) {
    if (options.add_special) ids.insert(ids.end(), more.begin(), more.end());
  };
  append(prefix_);
  bool after_special = true;
  for (size_t at = 0; at < text.size();) {
    const std::string_view window = text.substr(0, at + kMaxTextBytes);
    const SpecialTokens::Match match =
        special_.find(window, options.parse_special, at, options.plain_at);
    if (match.begin > at) {
      encode_text(window.substr(at, match.begin - at), {at == 0, after_special}, ids);
      after_special = false;
    }
    if (match.id != kNoToken) {
      ids.push_back(match.id);
      after_special = true;
    }
    at = match.begin + match.size;
  }
  append(suffix_);
  return ids;
}

std::vector<size_t> Tokenizer::control_texts(std::string_view text) const {
  std::vector<size_t> offsets;
  special_.find_control_texts(text, offsets);
  return offsets;
}

bool Tokenizer::is_control(int32_t id) const {
  return vocabulary_.contains(id) && is_control_type(vocabulary_.type(id));
}

bool Tokenizer::is_special(int32_t id) const {
  return vocabulary_.contains(id) && is_matched_whole(vocabulary_.type(id));
}

std::string_view Tokenizer::token_bytes(int32_t id, bool special) const {
  if (!vocabulary_.contains(id) || (!special && is_control(id))) return {};
  return token_bytes_[static_cast<size_t>(id)];
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  Detokenizer detokenizer(*this, options);
  std::string text;
  for (const int32_t id : ids) detokenizer.append(id, text);
  detokenizer.flush(text);
  return text;
}

}  // namespace bp::text

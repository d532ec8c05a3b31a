#include "core/text/gguf_word_models.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/text/bert_normaliser.hpp"
#include "core/text/huggingface/gguf_unigram.hpp"
#include "core/text/huggingface/word_marks.hpp"

namespace bp::text {
namespace {

using huggingface::kSpaceMark;
using huggingface::Pipeline;

// What normalizers and pre_tokenizers of the known forms do, they do to one of these. Patterns of a
// tokenizer's own that match none of them go unseen.
constexpr std::string_view kSamples[] = {
    "ab",
    "Ab Cd",
    "ab  c \xC2\xA0 d",
    "it's 12,345 ``''-- $x\t<y>\n\nz",
    "\xC3\xA9\xC3\x89 e\xCC\x81 \xC4\xB0 \xEF\xAC\x81 \xE2\x91\xA0 \xEF\xBC\xA1 \xC3\x9F",
    "\xE4\xB8\xAD\xE6\x96\x87 \xED\x95\x9C\xEA\xB8\x80 x\xE2\x80\x8By \x01z",
};
constexpr std::string_view kSpacedSamples[] = {"  ab  c ", "\n ab \t"};

std::vector<std::string> pieces_of(const Pipeline& pipeline, std::string_view text) {
  std::vector<std::string> pieces;
  pipeline.splitter.for_each_piece(pipeline.normalizer.apply(text), true,
                                   [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

// What the splits of a text could keep apart that tokens join.
struct Joins {
  bool words = false;  // a token goes on behind a mark
  bool marks = false;  // a token begins with several
};

Joins joins_of(const Vocabulary& v) {
  Joins joins;
  const std::string two_marks = std::string(kSpaceMark) += kSpaceMark;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.types[id] != TokenType::kNormal) continue;
    joins.words = joins.words || huggingface::has_mark_behind_text(v.tokens[id]);
    joins.marks = joins.marks || v.tokens[id].starts_with(two_marks);
  }
  return joins;
}

// The pieces as one text, where they part before words alone.
std::optional<std::string> marked_text(const Pipeline& pipeline, std::string_view text,
                                       const Joins& joins) {
  std::string joined;
  for (const std::string& piece : pieces_of(pipeline, text)) {
    const bool parts_marks = joins.marks && joined.ends_with(kSpaceMark);
    const bool is_apart = piece.starts_with(kSpaceMark) && !joins.words && !parts_marks;
    if (!joined.empty() && !is_apart) return std::nullopt;
    joined += piece;
  }
  return joined;
}

bool marks_alike(const Pipeline& a, const Pipeline& b, const Joins& joins) {
  const auto alike = [&](std::string_view sample) {
    const auto text = marked_text(a, sample, joins);
    return text && text == marked_text(b, sample, joins);
  };
  return std::ranges::all_of(kSpacedSamples, alike) && std::ranges::all_of(kSamples, alike);
}

bool splits_as_bert(const Pipeline& pipeline, BertNormaliser::Options options) {
  return std::ranges::all_of(kSamples, [&](std::string_view sample) {
    std::vector<std::string> words;
    BertNormaliser::for_each_word(sample, options,
                                  [&](std::string_view word) { words.emplace_back(word); });
    return words == pieces_of(pipeline, sample);
  });
}

std::string phantom_spaced(std::string_view text, std::string_view continuation) {
  const bool continues = text.size() > continuation.size() && text.starts_with(continuation);
  return continues ? std::string(text.substr(continuation.size()))
                   : std::string(kSpaceMark).append(text);
}

}  // namespace

Status write_unigram(const Pipeline& pipeline, Vocabulary& v) {
  if (pipeline.byte_fallback) {
    return unsupported("tokenizer.json: GGUF has no form for a Unigram model with byte_fallback");
  }
  if (v.unk == kNoToken) {
    return unsupported("tokenizer.json: GGUF has no form for a Unigram model without unk_id");
  }
  v.model = "t5";
  v.types[static_cast<size_t>(v.unk)] = TokenType::kUnknown;
  v.scores.assign(pipeline.scores.begin(), pipeline.scores.end());
  v.scores.resize(v.tokens.size());
  v.charsmap = pipeline.normalizer.charsmap();
  // Readers put a mark before every word where they collapse spaces.
  const Joins joins = joins_of(v);
  constexpr std::array kForms = {std::pair{true, true}, std::pair{false, true},
                                 std::pair{false, false}};
  for (const auto& [collapses, prefixes] : kForms) {
    v.remove_extra_whitespaces = collapses;
    v.add_space_prefix = prefixes;
    Vocabulary written = v;
    BP_TRY(huggingface::make_gguf_unigram(written));
    if (marks_alike(pipeline, *written.huggingface, joins)) return {};
  }
  return unsupported(
      "tokenizer.json: GGUF has no form for what its normalizer and pre_tokenizer make of words");
}

Status write_wordpiece(const Pipeline& pipeline, Vocabulary& v) {
  constexpr uint32_t kMaxWordCharacters = 100;
  if (v.unk == kNoToken || pipeline.continuation.empty() ||
      pipeline.max_word_characters != kMaxWordCharacters) {
    return unsupported(
        "tokenizer.json: GGUF has no form for a WordPiece model without unk_token or "
        "continuing_subword_prefix, or whose words may be longer than 100 characters");
  }
  v.model = "bert";
  if (v.bos == kNoToken) v.bos = v.cls;
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (v.types[id] == TokenType::kNormal) {
      v.tokens.set(id, phantom_spaced(v.tokens[id], pipeline.continuation));
    }
  }
  for (const bool lowers : {true, false}) {
    for (const bool strips : {true, false}) {
      v.lowercase = lowers;
      v.strip_accents = strips;
      if (splits_as_bert(pipeline, {lowers, strips})) return {};
    }
  }
  return unsupported(
      "tokenizer.json: GGUF has no form for what its normalizer and pre_tokenizer make of words");
}

}  // namespace bp::text

#include "core/text/gguf_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/gguf_word_models.hpp"
#include "core/text/huggingface/pipeline.hpp"
#include "core/text/text_index.hpp"

namespace bp::text {
namespace {

using huggingface::ModelKind;
using huggingface::Pipeline;

struct Merge {
  uint32_t rank;
  int32_t left, right, joined;
};

std::vector<Merge> merges_of(const Pipeline& pipeline) {
  std::vector<Merge> merges;
  pipeline.merges.for_each([&](int32_t left, int32_t right, PairMerge merge) {
    merges.push_back({merge.rank, left, right, merge.id});
  });
  std::ranges::sort(merges, {}, &Merge::rank);
  return merges;
}

void write_merges(const std::vector<Merge>& merges, Vocabulary& v) {
  for (const Merge& merge : merges) {
    v.merges.push_back(fmt::format("{} {}", v.tokens[static_cast<size_t>(merge.left)],
                                   v.tokens[static_cast<size_t>(merge.right)]));
  }
}

Status write_byte_level(const Pipeline& pipeline, Vocabulary& v) {
  const auto finders = pipeline.splitter.plain_finders();
  v.model = "gpt2";
  v.pre = pre_tokenizer_name(finders, pipeline.prefers_whole_pieces);
  if (finders.empty() || v.pre.empty()) {
    return unsupported("tokenizer.json: GGUF has no name for how its pre_tokenizer splits");
  }
  // Composition is left out, as other readers of GGUF leave it out; nothing else may change a text.
  constexpr std::string_view kSample =
      "The  Quick\tb\xC3\xA9\r\n 12,345 ``''\xC2\xA0\xEF\xAC\x81\xE2\x91\xA0\xEF\xBC\xA1 ";
  if (pipeline.normalizer.apply(kSample) != kSample) {
    return unsupported("tokenizer.json: GGUF has no form for what its normalizer does");
  }
  write_merges(merges_of(pipeline), v);
  return {};
}

// SentencePiece cuts at spaces alone and changes no character.
Status check_words_stay_whole(const Pipeline& pipeline) {
  constexpr std::string_view kWord = "Ab12,3!\r\n``\xEF\xAC\x81\xE2\x91\xA0";
  size_t n_pieces = 0, n_whole = 0;
  pipeline.splitter.for_each_piece(pipeline.normalizer.apply(kWord), true,
                                   [&](std::string_view piece) {
                                     ++n_pieces;
                                     n_whole += piece.ends_with(kWord) ? 1 : 0;
                                   });
  if (n_pieces == 1 && n_whole == 1) return {};
  return unsupported(
      "tokenizer.json: GGUF has no form for how its normalizer and pre_tokenizer change words");
}

constexpr size_t kMaxScoredBytes = 1024;  // of a token: all its cuts are tried

// Whether joining by scores does what the merges do: whatever makes a token is a merge, and all
// merges of a token stand together.
bool are_scores(const std::vector<Merge>& merges, const Vocabulary& v, const Pipeline& pipeline) {
  TextIndex ids(v.tokens);
  for (int32_t id = 0; id < v.n_tokens(); ++id) {
    if (v.type(id) == TokenType::kNormal) ids.insert(id);
  }
  std::vector<bool> is_done(v.tokens.size());
  for (size_t i = 0; i < merges.size(); ++i) {
    if (i > 0 && merges[i].joined == merges[i - 1].joined) continue;
    const auto id = static_cast<size_t>(merges[i].joined);
    if (v.types[id] != TokenType::kNormal) continue;
    if (is_done[id]) return false;
    is_done[id] = true;
  }
  for (int32_t id = 0; id < v.n_tokens(); ++id) {
    const std::string_view text = v.tokens[static_cast<size_t>(id)];
    if (v.type(id) != TokenType::kNormal) continue;
    if (text.size() > kMaxScoredBytes) return false;
    for (size_t n = 1; n < text.size(); ++n) {
      const int32_t left = ids.find(text.substr(0, n)), right = ids.find(text.substr(n));
      if (left == kNoToken || right == kNoToken) continue;
      if (pipeline.merges.find(left, right).id != id) return false;
    }
  }
  return true;
}

void write_scores(const std::vector<Merge>& merges, Vocabulary& v) {
  v.model = "llama";
  v.scores.resize(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const bool is_plain = v.types[id] == TokenType::kNormal;
    v.scores[id] = is_plain ? -static_cast<float>(merges.size() + id) : 0;
  }
  for (auto merge = merges.rbegin(); merge != merges.rend(); ++merge) {
    v.scores[static_cast<size_t>(merge->joined)] = -static_cast<float>(merge->rank);
  }
}

// Readers of this form merge within lines.
bool mixes_lines(std::string_view text) {
  const size_t first = text.find('\n');
  return first != text.npos && text.find_first_not_of('\n') != text.npos;
}

// BPE over characters: by scores, as SentencePiece does it, or by merges.
Status write_character_bpe(const Pipeline& pipeline, Vocabulary& v) {
  const auto pieces = [&](std::string_view text) {
    std::string joined;
    pipeline.splitter.for_each_piece(pipeline.normalizer.apply(text), true,
                                     [&](std::string_view piece) { joined += piece; });
    return joined;
  };
  const std::string marked = pieces("Ab  c");
  v.add_space_prefix = marked ==
                       "\xE2\x96\x81"
                       "Ab\xE2\x96\x81\xE2\x96\x81"
                       "c";
  if (!v.add_space_prefix && marked !=
                                 "Ab\xE2\x96\x81\xE2\x96\x81"
                                 "c") {
    return unsupported("tokenizer.json: GGUF has no form for what its normalizer does");
  }
  BP_TRY(check_words_stay_whole(pipeline));
  if (!pipeline.byte_fallback || pipeline.prefers_whole_pieces) {
    return unsupported(
        "tokenizer.json: GGUF has no form for BPE over characters without byte_fallback or with "
        "ignore_merges");
  }
  if (v.unk != kNoToken) v.types[static_cast<size_t>(v.unk)] = TokenType::kUnknown;
  const auto merges = merges_of(pipeline);
  if (are_scores(merges, v, pipeline)) {
    write_scores(merges, v);
    return {};
  }
  if (v.add_space_prefix || std::ranges::any_of(v.tokens, mixes_lines)) {
    return unsupported("tokenizer.json: GGUF has no form for merges that are no order of tokens");
  }
  v.model = "gpt2";
  v.pre = "sarvam-moe";
  write_merges(merges, v);
  return {};
}

Status write_model(const Pipeline& pipeline, Vocabulary& v) {
  switch (pipeline.kind) {
    case ModelKind::kUnigram:
      return write_unigram(pipeline, v);
    case ModelKind::kWordPiece:
      return write_wordpiece(pipeline, v);
    case ModelKind::kBpe:
      break;
  }
  return pipeline.splitter.is_byte_level() ? write_byte_level(pipeline, v)
                                           : write_character_bpe(pipeline, v);
}

Status write_flags(Vocabulary& v) {
  const auto only = [](const std::vector<int32_t>& ids, int32_t id) {
    return ids.size() == 1 && ids[0] == id && id != kNoToken;
  };
  if (!v.prefix.empty() && !only(v.prefix, v.bos)) {
    return unsupported("tokenizer.json: GGUF has no form for the tokens that begin every text");
  }
  v.add_bos = v.add_bos || !v.prefix.empty();
  if (v.suffix.empty()) return {};
  v.add_sep = only(v.suffix, v.sep) && v.sep != v.eos;
  v.add_eos = only(v.suffix, v.eos);
  if (v.add_sep || v.add_eos) return {};
  return unsupported("tokenizer.json: GGUF has no form for the tokens that end every text");
}

constexpr float kUnusedScore = -10000;

void pad(Vocabulary& v, int64_t n_tokens) {
  const auto n = std::max(v.tokens.size(), static_cast<size_t>(std::max<int64_t>(n_tokens, 0)));
  if (v.types.empty()) v.types.resize(v.tokens.size(), TokenType::kNormal);
  v.types.resize(n, TokenType::kUnused);
  v.tokens.resize(n);
  // What stands for nothing is never the likeliest.
  if (!v.scores.empty()) v.scores.resize(n, kUnusedScore);
  for (size_t id = 0; id < n; ++id) {
    if (v.types[id] == TokenType::kUnused && v.tokens[id].empty()) {
      v.tokens.set(id, fmt::format("[PAD{}]", id));
    }
  }
}

// Further ends of an answer, for readers that know but one by eos: those that no text tells first.
void name_ends(Vocabulary& v) {
  for (const bool by_text : {false, true}) {
    for (const int32_t id : v.end_of_generation) {
      if (id == v.eos || id == v.eot || id == v.eom) continue;
      if (is_end_text(v.tokens[static_cast<size_t>(id)]) != by_text) continue;
      int32_t& free_one = v.eot == kNoToken ? v.eot : v.eom;
      if (free_one == kNoToken) free_one = id;
    }
  }
}

}  // namespace

Result<Vocabulary> gguf_vocabulary(Vocabulary v, int64_t n_tokens) {
  if (v.huggingface != nullptr) {
    const auto pipeline = v.huggingface;
    v.types.resize(v.tokens.size(), TokenType::kNormal);
    BP_TRY(write_model(*pipeline, v));
    BP_TRY(write_flags(v));
    v.huggingface = nullptr;
  } else if (!v.charsmap.empty() && v.model == "llama") {
    return unsupported("tokenizer.model: GGUF has no form for the charsmap of a BPE model");
  }
  name_ends(v);
  pad(v, n_tokens);
  return v;
}

}  // namespace bp::text

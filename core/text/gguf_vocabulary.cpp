#include "core/text/gguf_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/huggingface/pipeline.hpp"

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
  for (const Merge& merge : merges_of(pipeline)) {
    v.merges.push_back(v.tokens[static_cast<size_t>(merge.left)] + " " +
                       v.tokens[static_cast<size_t>(merge.right)]);
  }
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

// SentencePiece joins by the score of what comes of it: the earlier merge, the higher.
Status write_sentencepiece(const Pipeline& pipeline, Vocabulary& v) {
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
  v.model = "llama";
  const auto merges = merges_of(pipeline);
  v.scores.resize(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const bool is_plain = v.types[id] == TokenType::kNormal;
    v.scores[id] = is_plain ? -static_cast<float>(merges.size() + id) : 0;
  }
  for (auto merge = merges.rbegin(); merge != merges.rend(); ++merge) {
    v.scores[static_cast<size_t>(merge->joined)] = -static_cast<float>(merge->rank);
  }
  if (v.unk != kNoToken) v.types[static_cast<size_t>(v.unk)] = TokenType::kUnknown;
  return {};
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

void pad(Vocabulary& v, int64_t n_tokens) {
  const auto n = std::max(v.tokens.size(), static_cast<size_t>(std::max<int64_t>(n_tokens, 0)));
  if (v.types.empty()) v.types.resize(v.tokens.size(), TokenType::kNormal);
  v.types.resize(n, TokenType::kUnused);
  v.tokens.resize(n);
  if (!v.scores.empty()) v.scores.resize(n);
  for (size_t id = 0; id < n; ++id) {
    if (v.types[id] == TokenType::kUnused && v.tokens[id].empty()) {
      v.tokens[id] = fmt::format("[PAD{}]", id);
    }
  }
}

// A second end of an answer, for readers that know but one by eos.
void name_end_of_turn(Vocabulary& v) {
  for (const int32_t id : v.end_of_generation) {
    if (v.eot == kNoToken && id != v.eos) v.eot = id;
  }
}

}  // namespace

Result<Vocabulary> gguf_vocabulary(Vocabulary v, int64_t n_tokens) {
  if (v.huggingface != nullptr) {
    const auto pipeline = v.huggingface;
    if (pipeline->kind != ModelKind::kBpe) {
      return unsupported(fmt::format("a tokenizer of the type {} has no form in GGUF", v.model));
    }
    v.types.resize(v.tokens.size(), TokenType::kNormal);
    BP_TRY(pipeline->splitter.is_byte_level() ? write_byte_level(*pipeline, v)
                                              : write_sentencepiece(*pipeline, v));
    BP_TRY(write_flags(v));
    v.huggingface = nullptr;
  }
  name_end_of_turn(v);
  pad(v, n_tokens);
  return v;
}

}  // namespace bp::text

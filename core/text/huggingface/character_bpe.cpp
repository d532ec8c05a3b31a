#include "core/text/huggingface/character_bpe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/pipeline.hpp"
#include "core/text/text_index.hpp"

namespace bp::text::huggingface {
namespace {

constexpr std::string_view kLines[] = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"};

Status read_merges(const Vocabulary& v, Pipeline& pipeline) {
  TextIndex ids(v.tokens);
  for (int32_t id = 0; id < v.n_tokens(); ++id) ids.insert(id);
  pipeline.merges = PairMerges(v.merges.size());
  for (size_t rank = 0; rank < v.merges.size(); ++rank) {
    const std::string_view merge = v.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return invalid_argument(fmt::format("tokenizer.ggml.merges[{}] is not two texts", rank));
    }
    const std::string joined = std::string(merge.substr(0, space)) += merge.substr(space + 1);
    const int32_t left = ids.find(merge.substr(0, space)),
                  right = ids.find(merge.substr(space + 1));
    const int32_t id = ids.find(joined);
    if (left == kNoToken || right == kNoToken || id == kNoToken) continue;
    pipeline.merges.insert(left, right, {static_cast<uint32_t>(rank), id});
  }
  return {};
}

void mark_byte_tokens(Vocabulary& v) {
  if (v.types.empty()) v.types.resize(v.tokens.size(), TokenType::kNormal);
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.types[i] == TokenType::kNormal && parse_byte_token(v.tokens[i])) {
      v.types[i] = TokenType::kByte;
    }
  }
}

}  // namespace

bool is_character_bpe(const Vocabulary& v) {
  const bool is_bpe = v.model == "gpt2" || v.model == "gemma4" || v.model == "whitespace";
  return is_bpe && (std::ranges::count(kLines, v.pre) > 0 || v.pre == "whitespace");
}

Status make_character_bpe(Vocabulary& v) {
  const bool by_words = v.pre == "whitespace";
  const Json marks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json spaces = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  const Json lines = {
      {"type", "Split"}, {"pattern", {{"Regex", "[^\\n]+|[\\n]+"}}}, {"behavior", "Isolated"}};
  const Json words = {{"type", "WhitespaceSplit"}};
  const Json decoder = {
      {"type", "Sequence"},
      {"decoders", Json::array({spaces, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}})}};
  auto pipeline = std::make_shared<Pipeline>();
  pipeline->byte_fallback = true;
  BP_ASSIGN(pipeline->normalizer, Normalizer::parse(by_words ? nullptr : &marks));
  BP_ASSIGN(pipeline->splitter, Splitter::parse(by_words ? &words : &lines));
  BP_ASSIGN(pipeline->decoder, Decoder::parse(by_words ? nullptr : &decoder));
  BP_TRY(read_merges(v, *pipeline));
  mark_byte_tokens(v);
  v.merges.clear();
  v.huggingface = std::move(pipeline);
  return {};
}

}  // namespace bp::text::huggingface

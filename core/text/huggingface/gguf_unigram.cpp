#include "core/text/huggingface/gguf_unigram.hpp"

#include <cmath>

#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/pipeline.hpp"
#include "core/text/huggingface/word_marks.hpp"

namespace bp::text::huggingface {

Status make_gguf_unigram(Vocabulary& v) {
  if (v.scores.empty()) {
    return invalid_argument("tokenizer.ggml.scores is missing: model \"t5\" needs it");
  }
  if (v.unk == kNoToken) {
    return invalid_argument("tokenizer.ggml.unknown_token_id is missing: model \"t5\" needs it");
  }
  const Json mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  const Json decoder = {{"type", "Metaspace"},
                        {"prepend_scheme", v.add_space_prefix ? "always" : "never"}};
  auto pipeline = std::make_shared<Pipeline>();
  pipeline->kind = ModelKind::kUnigram;
  if (!v.charsmap.empty()) {
    BP_ASSIGN(pipeline->normalizer, Normalizer::of_charsmap(v.charsmap));
  }
  if (v.remove_extra_whitespaces) pipeline->normalizer.add_collapse();
  if (v.add_space_prefix) {
    BP_TRY(pipeline->normalizer.add({{"type", "Prepend"}, {"prepend", kSpaceMark}}));
  }
  BP_TRY(pipeline->normalizer.add(mark));
  BP_ASSIGN(pipeline->splitter, Splitter::parse(nullptr));
  BP_ASSIGN(pipeline->decoder, Decoder::parse(&decoder));
  // The least score is of a token that texts are made of.
  pipeline->scores.assign(v.scores.begin(), v.scores.end());
  for (int32_t id = 0; id < v.n_tokens(); ++id) {
    double& score = pipeline->scores[static_cast<size_t>(id)];
    if (v.type(id) != TokenType::kNormal) score = 0;
    if (!std::isfinite(score)) {
      return invalid_argument("tokenizer.ggml.scores[" + std::to_string(id) +
                              "] is not finite: model \"t5\" adds scores up");
    }
  }
  v.huggingface = std::move(pipeline);
  return {};
}

}  // namespace bp::text::huggingface

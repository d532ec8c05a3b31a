#include "core/text/huggingface/model_json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/text/huggingface/json_fields.hpp"
#include "core/text/text_index.hpp"

namespace bp::text::huggingface {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 24;

Status read_vocab_object(const Json& vocab, Vocabulary& v) {
  for (const auto& [text, id] : vocab.items()) {
    if (!id.is_number_integer()) {
      return invalid_argument(fmt::format("tokenizer.json: token \"{}\" has no id", text));
    }
    BP_TRY(set_token(v, id.get<int64_t>(), text, TokenType::kNormal));
  }
  return {};
}

Status read_vocab_array(const Json& vocab, Vocabulary& v, Pipeline& pipeline) {
  for (const Json& entry : vocab) {
    const bool is_pair =
        entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    if (!is_pair || !std::isfinite(entry[1].get<double>())) {
      return invalid_argument(fmt::format(
          "tokenizer.json: entry {} of vocab is no pair of a text and a number", v.n_tokens()));
    }
    BP_TRY(set_token(v, v.n_tokens(), entry[0].get_ref<const std::string&>(), TokenType::kNormal));
    pipeline.scores.push_back(entry[1].get<double>());
  }
  return {};
}

struct TextPair {
  std::string left;
  std::string right;
};

// "a b" or ["a", "b"].
Result<TextPair> merge_of(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return TextPair{merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && space > 0 && space + 1 < text.size()) {
      return TextPair{text.substr(0, space), text.substr(space + 1)};
    }
  }
  return invalid_argument("is not two texts");
}

Status read_merges(const Json& merges, const Vocabulary& v, Pipeline& pipeline) {
  TextIndex ids(v.tokens);
  for (int32_t id = 0; id < v.n_tokens(); ++id) ids.insert(id);
  pipeline.merges = PairMerges(merges.size());
  uint32_t rank = 0;
  for (const Json& merge : merges) {
    auto pair = merge_of(merge);
    if (!pair.ok()) {
      return pair.status().with_context(fmt::format("tokenizer.json: merge {}", rank));
    }
    const int32_t left = ids.find(pair->left);
    const int32_t right = ids.find(pair->right);
    const int32_t joined = ids.find(pair->left + pair->right);
    if (left == kNoToken || right == kNoToken || joined == kNoToken) {
      return invalid_argument(
          fmt::format("tokenizer.json: merge {} (\"{}\" and \"{}\") is of texts "
                      "that are no tokens",
                      rank, pair->left, pair->right));
    }
    pipeline.merges.insert(left, right, {rank++, joined});
  }
  return {};
}

Status refuse_text(const Json& model, const char* name) {
  const Json* value = member(model, name);
  if (value == nullptr || (value->is_string() && value->get_ref<const std::string&>().empty())) {
    return {};
  }
  return unsupported(fmt::format("tokenizer.json: a model with {} is not supported", name));
}

void mark_byte_tokens(Vocabulary& v) {
  for (size_t i = 0; i < v.tokens.size(); ++i) {
    if (parse_byte_token(v.tokens[i])) v.types[i] = TokenType::kByte;
  }
}

int32_t find_token(const Vocabulary& v, const std::string& text) {
  for (int32_t id = 0; id < v.n_tokens(); ++id) {
    if (v.tokens[static_cast<size_t>(id)] == text) return id;
  }
  return kNoToken;
}

Status read_bpe(const Json& model, Vocabulary& v, Pipeline& pipeline) {
  pipeline.kind = ModelKind::kBpe;
  BP_TRY(refuse_text(model, "continuing_subword_prefix"));
  BP_TRY(refuse_text(model, "end_of_word_suffix"));
  BP_TRY(refuse_text(model, "dropout"));
  pipeline.prefers_whole_pieces = flag_of(model, "ignore_merges");
  pipeline.byte_fallback = flag_of(model, "byte_fallback");
  pipeline.fuses_unknown = flag_of(model, "fuse_unk");
  const Json* merges = member(model, "merges");
  if (merges == nullptr || !merges->is_array()) {
    return invalid_argument("tokenizer.json: a BPE model lacks merges");
  }
  return read_merges(*merges, v, pipeline);
}

}  // namespace

Status set_token(Vocabulary& v, int64_t id, std::string_view text, TokenType type) {
  if (id < 0 || id >= kMaxTokens) {
    return invalid_argument(
        fmt::format("tokenizer.json: token \"{}\" has the id {}", text.substr(0, 64), id));
  }
  const auto i = static_cast<size_t>(id);
  if (i >= v.tokens.size()) {
    v.tokens.resize(i + 1);
    v.types.resize(i + 1, TokenType::kUnused);
  }
  if (v.types[i] != TokenType::kUnused && v.tokens[i] != text) {
    return invalid_argument(fmt::format("tokenizer.json: id {} is of \"{}\" and of \"{}\"", id,
                                        v.tokens[i].substr(0, 64), text.substr(0, 64)));
  }
  if (v.tokens[i] != text) v.tokens.set(i, text);
  v.types[i] = type;
  return {};
}

Status read_model(const Json& model, Vocabulary& v, Pipeline& pipeline) {
  BP_TRY(check_kinds(model));
  const Json* vocab = member(model, "vocab");
  if (vocab == nullptr || !vocab->is_structured()) {
    return invalid_argument("tokenizer.json: its model lacks a vocab");
  }
  // Files of before types were written tell by what they hold.
  const char* guess = vocab->is_array() ? "Unigram" : member(model, "merges") ? "BPE" : "WordPiece";
  v.model = text_of(model, "type", guess);
  if (vocab->is_array() != (v.model == "Unigram")) {
    return invalid_argument("tokenizer.json: the vocab of a " + v.model +
                            " model is of a wrong type");
  }
  BP_TRY(vocab->is_array() ? read_vocab_array(*vocab, v, pipeline) : read_vocab_object(*vocab, v));
  if (v.tokens.empty()) return invalid_argument("tokenizer.json: its vocab is empty");
  const std::string unknown = text_of(model, "unk_token");
  if (!unknown.empty()) v.unk = find_token(v, unknown);
  if (v.model == "BPE") {
    BP_TRY(read_bpe(model, v, pipeline));
  } else if (v.model == "Unigram") {
    pipeline.kind = ModelKind::kUnigram;
    pipeline.byte_fallback = flag_of(model, "byte_fallback");
    const int64_t id = number_of(model, "unk_id", kNoToken);
    if (id >= 0 && id < v.n_tokens()) v.unk = static_cast<int32_t>(id);
  } else if (v.model == "WordPiece") {
    pipeline.kind = ModelKind::kWordPiece;
    pipeline.continuation = text_of(model, "continuing_subword_prefix", "##");
    const int64_t most = number_of(model, "max_input_chars_per_word", 100);
    pipeline.max_word_characters = static_cast<uint32_t>(std::clamp<int64_t>(most, 0, 1000));
  } else {
    return unknown_type("a model", v.model);
  }
  if (pipeline.byte_fallback) mark_byte_tokens(v);
  return {};
}

}  // namespace bp::text::huggingface

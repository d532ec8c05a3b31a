#include "core/text/huggingface/tokenizer_json.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/model_json.hpp"

namespace bp::text::huggingface {
namespace {

Status read_added_tokens(const Json* tokens, Vocabulary& v) {
  if (tokens == nullptr) return {};
  if (!tokens->is_array()) return invalid_argument("tokenizer.json: added_tokens is no array");
  AddedTokens added;
  for (const Json& token : *tokens) {
    const Json* id = member(token, "id");
    if (id == nullptr || !id->is_number_integer()) {
      return invalid_argument(
          fmt::format("tokenizer.json: added token \"{}\" has no whole number as id",
                      text_of(token, "content").substr(0, 64)));
    }
    BP_ASSIGN(const AddedToken found, add_token(token, id->get<int64_t>(), v));
    added[found.id] = found;
  }
  set_added(added, v);
  return {};
}

class PostProcessor {
 public:
  explicit PostProcessor(Vocabulary& vocabulary) : v_(vocabulary) {}

  Status add(const Json& step) {
    const std::string type = type_of(step);
    if (type == "ByteLevel") return {};
    if (type == "TemplateProcessing") return add_template(step);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      BP_TRY(add_pair(step, "cls", v_.prefix));
      return add_pair(step, "sep", v_.suffix);
    }
    return unknown_type("a post_processor", type);
  }

 private:
  // [text, id]
  Status add_pair(const Json& step, const char* name, std::vector<int32_t>& ids) {
    const Json* pair = member(step, name);
    const bool is_pair =
        pair != nullptr && pair->is_array() && pair->size() == 2 && (*pair)[1].is_number_integer();
    return is_pair ? add_id((*pair)[1], ids) : wrong(name);
  }

  Status add_template(const Json& step) {
    const Json* pieces = member(step, "single");
    const Json* known = member(step, "special_tokens");
    if (pieces == nullptr || !pieces->is_array()) return wrong("single");
    bool behind = false;
    for (const Json& piece : *pieces) {
      const Json* token = member(piece, "SpecialToken");
      if (token == nullptr) {
        if (member(piece, "Sequence") == nullptr) return wrong("a piece of single");
        behind = true;
        continue;
      }
      const Json* entry =
          known == nullptr ? nullptr : member(*known, text_of(*token, "id").c_str());
      const Json* ids = entry == nullptr ? nullptr : member(*entry, "ids");
      if (ids == nullptr || !ids->is_array()) return wrong("special_tokens");
      for (const Json& id : *ids) BP_TRY(add_id(id, behind ? v_.suffix : v_.prefix));
    }
    return {};
  }

  Status add_id(const Json& id, std::vector<int32_t>& ids) {
    const int64_t value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value >= v_.n_tokens() || ids.size() >= 64) return wrong("ids");
    ids.push_back(static_cast<int32_t>(value));
    return {};
  }

  static Status wrong(const char* what) {
    return invalid_argument(
        fmt::format("tokenizer.json: {} of the post_processor is missing or wrong", what));
  }

  Vocabulary& v_;
};

}  // namespace

Result<AddedToken> add_token(const Json& token, int64_t id, Vocabulary& v) {
  BP_TRY(check_kinds(token));
  const bool special = flag_of(token, "special");
  BP_TRY(set_token(v, id, text_of(token, "content"),
                   special ? TokenType::kControl : TokenType::kUserDefined));
  AddedToken added;
  added.id = static_cast<int32_t>(id);
  added.takes_space_before = flag_of(token, "lstrip");
  added.takes_space_behind = flag_of(token, "rstrip");
  added.is_word = flag_of(token, "single_word");
  // Control tokens are found in the text itself, where one knows whose words it is.
  added.matches_normalized = !special && flag_of(token, "normalized", true);
  return added;
}

Status read_tokenizer_json(std::string_view text, Vocabulary& v) {
  BP_ASSIGN(const Json json, parse_object(text, "tokenizer.json"));
  const Json* model = member(json, "model");
  if (model == nullptr) return invalid_argument("tokenizer.json: it has no model");
  auto pipeline = std::make_shared<Pipeline>();
  BP_TRY(read_model(*model, v, *pipeline));
  BP_TRY(read_added_tokens(member(json, "added_tokens"), v));
  BP_ASSIGN(pipeline->normalizer, Normalizer::parse(member(json, "normalizer")));
  BP_ASSIGN(pipeline->splitter, Splitter::parse(member(json, "pre_tokenizer")));
  BP_ASSIGN(pipeline->decoder, Decoder::parse(member(json, "decoder")));
  if (pipeline->splitter.is_byte_level() && pipeline->kind != ModelKind::kBpe) {
    return unsupported("tokenizer.json: ByteLevel pieces for a " + v.model + " model");
  }
  if (const Json* post = member(json, "post_processor")) {
    PostProcessor processor(v);
    BP_TRY(
        for_each_step(*post, "processors", [&](const Json& step) { return processor.add(step); }));
  }
  v.huggingface = std::move(pipeline);
  return {};
}

}  // namespace bp::text::huggingface

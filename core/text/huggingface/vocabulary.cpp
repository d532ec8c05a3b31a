#include "core/text/huggingface/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "backplane/json_metadata.hpp"
#include "core/text/huggingface/json_fields.hpp"
#include "core/text/huggingface/sentencepiece_model.hpp"
#include "core/text/huggingface/tokenizer_json.hpp"
#include "core/text/text_index.hpp"

namespace bp::text::huggingface {
namespace {

constexpr std::string_view kJsonKey = "tokenizer.huggingface.json";
constexpr std::string_view kModelKey = "tokenizer.sentencepiece.model";

struct NamedToken {
  const char* name;
  int32_t Vocabulary::*id;
};
constexpr std::array<NamedToken, 7> kNamedTokens = {{
    {"bos_token", &Vocabulary::bos},
    {"eos_token", &Vocabulary::eos},
    {"unk_token", &Vocabulary::unk},
    {"pad_token", &Vocabulary::pad},
    {"cls_token", &Vocabulary::cls},
    {"sep_token", &Vocabulary::sep},
    {"mask_token", &Vocabulary::mask},
}};

Result<Json> object_at(MetadataView metadata, std::string_view key) {
  if (!metadata.contains(key)) return Json::object();
  BP_ASSIGN(const std::string_view text, metadata.get<std::string_view>(key));
  return parse_object(text, key);
}

// A text, or an object with the text as its content.
std::string token_text(const Json& config, const char* name) {
  const Json* value = member(config, name);
  if (value != nullptr && value->is_object()) return text_of(*value, "content");
  return text_of(config, name);
}

void read_named_tokens(const Json& config, const TextIndex& ids, Vocabulary& v) {
  for (const NamedToken& token : kNamedTokens) {
    const std::string text = token_text(config, token.name);
    const int32_t id = text.empty() ? kNoToken : ids.find(text);
    if (id != kNoToken) v.*token.id = id;
  }
}

// Ids under keys of config.json and generation_config.json: one, a list, or none.
class IdReader {
 public:
  IdReader(MetadataView metadata, const Vocabulary& v) : metadata_(metadata), v_(v) {
    const auto n_rows = metadata.get<int64_t>("config.vocab_size");
    n_ids_ = std::max<int64_t>(v.n_tokens(), n_rows.ok() ? *n_rows : 0);
  }

  // Those of the vocabulary; the model may have rows behind it, of which no text is known.
  Result<std::vector<int32_t>> read(const std::string& key) const {
    std::vector<int32_t> ids;
    const bp_metadata* entry = metadata_.find(key);
    if (entry == nullptr) BP_TRY(check_absent(metadata_, key));
    for (uint64_t i = 0; entry != nullptr && i < std::min<uint64_t>(entry->n, 64); ++i) {
      const auto id = metadata_detail::element<int64_t>(*entry, i);
      if (!id) {
        return invalid_argument(fmt::format("metadata \"{}\": expected ids of tokens, found {}",
                                            key, metadata_detail::describe(*entry, i)));
      }
      if (*id < 0 || *id >= n_ids_) {
        return invalid_argument(
            fmt::format("metadata \"{}\": id {} is none of the {} tokens", key, *id, n_ids_));
      }
      if (*id < v_.n_tokens()) ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
  }

  // Padding is never put into a text, and many a file gives an id for it that no token has.
  [[nodiscard]] int32_t read_padding(const std::string& key) const {
    const auto id = metadata_.get<int32_t>(key);
    return id.ok() && v_.contains(*id) ? *id : kNoToken;
  }

 private:
  MetadataView metadata_;
  const Vocabulary& v_;
  int64_t n_ids_;
};

Status read_ids(MetadataView metadata, const std::string& file, Vocabulary& v,
                std::vector<int32_t>& ends) {
  const IdReader reader(metadata, v);
  BP_ASSIGN(const auto begins, reader.read(file + ".bos_token_id"));
  if (v.bos == kNoToken && !begins.empty()) v.bos = begins[0];
  if (v.pad == kNoToken) v.pad = reader.read_padding(file + ".pad_token_id");
  BP_ASSIGN(const auto found, reader.read(file + ".eos_token_id"));
  ends.insert(ends.end(), found.begin(), found.end());
  if (v.eos == kNoToken && !found.empty()) v.eos = found[0];
  return {};
}

// Classes of transformers that put BOS and EOS by tokenizer_config.json, whatever tokenizer.json
// says.
bool adds_by_config(const std::string& tokenizer_class) {
  for (const char* prefix : {"Llama", "CodeLlama", "Gemma", "Cohere"}) {
    if (tokenizer_class.starts_with(prefix)) return true;
  }
  return false;
}

void read_flags(const Json& config, Vocabulary& v) {
  if (v.huggingface == nullptr || adds_by_config(text_of(config, "tokenizer_class"))) {
    if (member(config, "add_bos_token") != nullptr) {
      v.prefix.clear();
      v.add_bos = flag_of(config, "add_bos_token") && v.bos != kNoToken;
    }
    if (member(config, "add_eos_token") != nullptr) {
      v.suffix.clear();
      v.add_eos = flag_of(config, "add_eos_token") && v.eos != kNoToken;
    }
  }
  if (v.prefix.empty()) return;
  v.bos = v.prefix[0];
  v.add_bos = true;
}

// One template as a text, which is the default one, or several by name.
std::string template_of(const Json& config, std::string_view name) {
  const Json* value = member(config, "chat_template");
  if (value == nullptr || !value->is_array()) {
    return name == "default" ? text_of(config, "chat_template") : std::string();
  }
  for (const Json& named : *value) {
    if (text_of(named, "name") == name) return text_of(named, "template");
  }
  return {};
}

// The added tokens of a folder without tokenizer.json: by id as text.
Status read_added_tokens(const Json& config, Vocabulary& v) {
  const Json* tokens = member(config, "added_tokens_decoder");
  if (tokens == nullptr || !tokens->is_object()) return {};
  AddedTokens added;
  for (const auto& [name, token] : tokens->items()) {
    int64_t id = -1;
    const char* const end = name.data() + name.size();
    const auto result = std::from_chars(name.data(), end, id);
    // They keep the texts of the model's own pieces.
    const bool is_id = result.ec == std::errc() && result.ptr == end;
    if (!is_id || id < v.n_tokens() || !token.is_object()) continue;
    BP_ASSIGN(AddedToken found, add_token(token, id, v));
    found.matches_normalized = false;
    added[found.id] = found;
  }
  set_added(added, v);
  if (!v.scores.empty()) v.scores.resize(v.tokens.size());
  return {};
}

}  // namespace

bool has_vocabulary(MetadataView metadata) {
  return metadata.contains(kJsonKey) || metadata.contains(kModelKey);
}

Result<Vocabulary> read_vocabulary(MetadataView metadata) {
  Vocabulary v;
  BP_ASSIGN(const Json config, object_at(metadata, "tokenizer.huggingface.config"));
  BP_ASSIGN(const Json map, object_at(metadata, "tokenizer.huggingface.special_tokens_map"));
  if (metadata.contains(kJsonKey)) {
    BP_ASSIGN(const std::string_view text, metadata.get<std::string_view>(kJsonKey));
    BP_TRY(read_tokenizer_json(text, v));
  } else {
    BP_ASSIGN(const std::string_view bytes, metadata.get<std::string_view>(kModelKey));
    BP_TRY(read_sentencepiece_model(bytes, v));
    BP_TRY(read_added_tokens(config, v));
  }
  TextIndex ids(v.tokens);
  for (int32_t id = 0; id < v.n_tokens(); ++id) ids.insert(id);
  read_named_tokens(map, ids, v);
  read_named_tokens(config, ids, v);
  std::vector<int32_t> ends;
  BP_TRY(read_ids(metadata, "config", v, ends));
  BP_TRY(read_ids(metadata, "generation_config", v, ends));
  read_flags(config, v);
  BP_ASSIGN(v.chat_template, metadata.get_or<std::string_view>("tokenizer.chat_template", ""));
  if (v.chat_template.empty()) {
    v.chat_template = template_of(config, "default");
    v.tool_template = template_of(config, "tool_use");
  }
  BP_TRY(check_vocabulary(v));
  find_end_of_generation(v);
  add_end_of_generation(v, ends);
  return v;
}

}  // namespace bp::text::huggingface

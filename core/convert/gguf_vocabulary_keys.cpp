#include "core/convert/gguf_vocabulary_keys.hpp"

#include <array>

namespace bp::convert {

namespace {

std::vector<std::string_view> views(const text::TextList& texts) {
  return {texts.begin(), texts.end()};
}

void put_normalizer(const text::Vocabulary& v, MetadataTable& metadata) {
  if (v.model == "bert") {
    metadata.put_bool("tokenizer.ggml.normalizer.lowercase", {v.lowercase});
    metadata.put_bool("tokenizer.ggml.normalizer.strip_accents", {v.strip_accents});
  }
  if (v.model == "t5" || (v.model == "llama" && v.remove_extra_whitespaces)) {
    metadata.put_bool("tokenizer.ggml.remove_extra_whitespaces", {v.remove_extra_whitespaces});
  }
  if (v.model == "t5" && !v.charsmap.empty()) {
    std::vector<int64_t> bytes;
    for (const char byte : v.charsmap) bytes.push_back(static_cast<uint8_t>(byte));
    metadata.put_int("tokenizer.ggml.precompiled_charsmap", std::move(bytes), true);
  }
}

void put_added(const text::Vocabulary& v, MetadataTable& metadata) {
  for (const auto& [key, flag] : text::kAddedTokenFlags) {
    std::vector<int64_t> ids;
    for (const text::AddedToken& added : v.added) {
      if (added.*flag) ids.push_back(added.id);
    }
    if (!ids.empty()) metadata.put_signed(key, std::move(ids));
  }
}

}  // namespace

void put_vocabulary(const text::Vocabulary& v, MetadataTable& metadata) {
  metadata.put_string("tokenizer.ggml.model", v.model);
  if (v.model == "llama" || v.model == "t5" || v.model == "bert") {
    metadata.put_string("tokenizer.ggml.pre", "default");
  } else if (!v.pre.empty()) {
    metadata.put_string("tokenizer.ggml.pre", v.pre);
  }
  metadata.put_strings("tokenizer.ggml.tokens", views(v.tokens));
  if (!v.scores.empty()) {
    metadata.put_float("tokenizer.ggml.scores", {v.scores.begin(), v.scores.end()}, true);
  }
  std::vector<int64_t> types;
  for (const text::TokenType type : v.types) types.push_back(static_cast<int64_t>(type));
  metadata.put_signed("tokenizer.ggml.token_type", std::move(types));
  if (v.model != "llama" && v.model != "t5" && v.model != "bert") {
    metadata.put_strings("tokenizer.ggml.merges", views(v.merges));
  }
  put_normalizer(v, metadata);
  const std::array<std::pair<const char*, int32_t>, 9> ids = {{
      {"tokenizer.ggml.bos_token_id", v.bos},
      {"tokenizer.ggml.eos_token_id", v.eos},
      {"tokenizer.ggml.eot_token_id", v.eot},
      {"tokenizer.ggml.eom_token_id", v.eom},
      {"tokenizer.ggml.unknown_token_id", v.unk},
      {"tokenizer.ggml.seperator_token_id", v.sep},  // sic
      {"tokenizer.ggml.padding_token_id", v.pad},
      {"tokenizer.ggml.cls_token_id", v.cls},
      {"tokenizer.ggml.mask_token_id", v.mask},
  }};
  for (const auto& [key, id] : ids) {
    if (id != text::kNoToken) metadata.put_int(key, {id});
  }
  metadata.put_bool("tokenizer.ggml.add_bos_token", {v.add_bos});
  metadata.put_bool("tokenizer.ggml.add_eos_token", {v.add_eos});
  if (v.add_sep) metadata.put_bool("tokenizer.ggml.add_sep_token", {true});
  metadata.put_bool("tokenizer.ggml.add_space_prefix", {v.add_space_prefix});
  put_added(v, metadata);
  if (!v.chat_template.empty()) metadata.put_string("tokenizer.chat_template", v.chat_template);
  if (v.tool_template.empty()) return;
  metadata.put_string("tokenizer.chat_template.tool_use", v.tool_template);
  const std::vector<std::string_view> named{"tool_use"};
  metadata.put_strings("tokenizer.chat_templates", named);
}

}  // namespace bp::convert

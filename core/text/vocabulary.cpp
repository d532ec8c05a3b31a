#include "core/text/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/text/huggingface/vocabulary.hpp"

namespace bp::text {
namespace {

struct SpecialToken {
  const char* key;
  int32_t Vocabulary::*id;
};

constexpr std::array kSpecialTokens = {
    SpecialToken{"tokenizer.ggml.bos_token_id", &Vocabulary::bos},
    SpecialToken{"tokenizer.ggml.eos_token_id", &Vocabulary::eos},
    SpecialToken{"tokenizer.ggml.eot_token_id", &Vocabulary::eot},
    SpecialToken{"tokenizer.ggml.eom_token_id", &Vocabulary::eom},
    SpecialToken{"tokenizer.ggml.unknown_token_id", &Vocabulary::unk},
    SpecialToken{"tokenizer.ggml.seperator_token_id", &Vocabulary::sep},  // sic
    SpecialToken{"tokenizer.ggml.padding_token_id", &Vocabulary::pad},
    SpecialToken{"tokenizer.ggml.cls_token_id", &Vocabulary::cls},
    SpecialToken{"tokenizer.ggml.mask_token_id", &Vocabulary::mask},
};

// Pre-tokenizers whose models begin every text with BOS when the file does not say.
constexpr std::array<std::string_view, 11> kPreAddingBos = {
    "llama3",   "llama-v3", "llama-bpe",    "falcon3", "falcon-h1", "pixtral",
    "midm-2.0", "lfm2",     "jina-v5-nano", "tekken",  "chameleon"};

// Pre-tokenizers of encoders, whose models end every text with SEP.
constexpr std::array<std::string_view, 3> kPreAddingSep = {"jina-v1-en", "jina-v2-code",
                                                           "roberta-bpe"};

Status read_special_ids(MetadataView metadata, Vocabulary& vocabulary) {
  for (const SpecialToken& token : kSpecialTokens) {
    if (!metadata.contains(token.key)) continue;
    BP_ASSIGN(const int64_t id, metadata.get<int64_t>(token.key));
    if (id < 0 || id >= vocabulary.n_tokens()) {
      return invalid_argument(fmt::format("{} is {}, but the vocabulary has {} tokens", token.key,
                                          id, vocabulary.n_tokens()));
    }
    vocabulary.*token.id = static_cast<int32_t>(id);
  }
  return {};
}

Status read_strings(MetadataView metadata, std::string_view key, TextList& out) {
  BP_ASSIGN(const auto strings, metadata.array<std::string_view>(key));
  size_t n_bytes = 0;
  for (uint64_t i = 0; i < strings.size(); ++i) n_bytes += strings[i].size();
  out.reserve(strings.size(), n_bytes);
  for (uint64_t i = 0; i < strings.size(); ++i) out.push_back(strings[i]);
  return {};
}

Status read_types(MetadataView metadata, std::vector<TokenType>& out) {
  constexpr std::string_view key = "tokenizer.ggml.token_type";
  if (!metadata.contains(key)) return {};
  BP_ASSIGN(const auto types, metadata.array<int64_t>(key));
  out.reserve(types.size());
  for (uint64_t i = 0; i < types.size(); ++i) {
    if (types[i] < 0 || types[i] > static_cast<int64_t>(TokenType::kByte)) {
      return invalid_argument(fmt::format("{}[{}] is {}, expected 0 to 6", key, i, types[i]));
    }
    out.push_back(static_cast<TokenType>(types[i]));
  }
  return {};
}

Status read_scores(MetadataView metadata, std::vector<float>& out) {
  constexpr std::string_view key = "tokenizer.ggml.scores";
  if (!metadata.contains(key)) return {};
  BP_ASSIGN(const auto scores, metadata.array<double>(key));
  out.reserve(scores.size());
  for (uint64_t i = 0; i < scores.size(); ++i) out.push_back(static_cast<float>(scores[i]));
  return {};
}

// Bytes, as signed or unsigned numbers.
Status read_charsmap(MetadataView metadata, Vocabulary& v) {
  constexpr std::string_view key = "tokenizer.ggml.precompiled_charsmap";
  if (!metadata.contains(key)) return {};
  BP_ASSIGN(const auto bytes, metadata.array<int64_t>(key));
  if (bytes.size() > 0 && v.model != "llama" && v.model != "t5") {
    return unsupported(fmt::format("{}: model \"{}\" applies none", key, v.model));
  }
  std::string& out = v.charsmap;
  out.reserve(bytes.size());
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] < -128 || bytes[i] > 255) {
      return invalid_argument(fmt::format("{}[{}] is {}, no byte", key, i, bytes[i]));
    }
    out.push_back(static_cast<char>(bytes[i]));
  }
  return {};
}

// What only "bert" does to texts; elsewhere it must be off.
Status read_normalizer(MetadataView metadata, Vocabulary& v) {
  constexpr const char* kLowercase = "tokenizer.ggml.normalizer.lowercase";
  constexpr const char* kStripAccents = "tokenizer.ggml.normalizer.strip_accents";
  if (v.model != "bert") {
    for (const char* key : {kLowercase, kStripAccents}) {
      BP_ASSIGN(const bool is_set, metadata.get_or(key, false));
      if (!is_set) continue;
      return unsupported(fmt::format("{}: model \"{}\" has no such step", key, v.model));
    }
  }
  BP_ASSIGN(v.lowercase, metadata.get_or(kLowercase, true));
  BP_ASSIGN(v.strip_accents, metadata.get_or(kStripAccents, v.lowercase));
  return {};
}

Status read_flags(MetadataView metadata, Vocabulary& v) {
  const bool is_llama = v.model == "llama";
  const bool is_bert = v.model == "bert";
  const bool is_unigram = v.model == "t5";
  const bool pre_adds_bos = std::ranges::find(kPreAddingBos, v.pre) != kPreAddingBos.end();
  const bool adds_bos =
      is_llama || is_bert || v.pre == "gemma4" || (v.model == "gpt2" && pre_adds_bos);
  BP_ASSIGN(v.add_bos, metadata.get_or("tokenizer.ggml.add_bos_token", adds_bos && v.bos >= 0));
  BP_ASSIGN(v.add_eos, metadata.get_or("tokenizer.ggml.add_eos_token", is_unigram && v.eos >= 0));
  const bool pre_adds_sep = std::ranges::find(kPreAddingSep, v.pre) != kPreAddingSep.end();
  BP_ASSIGN(v.add_sep, metadata.get_or("tokenizer.ggml.add_sep_token",
                                       (is_bert || pre_adds_sep) && v.sep >= 0));
  BP_ASSIGN(v.add_space_prefix, metadata.get_or("tokenizer.ggml.add_space_prefix", is_llama));
  BP_ASSIGN(v.remove_extra_whitespaces,
            metadata.get_or("tokenizer.ggml.remove_extra_whitespaces", false));
  return read_normalizer(metadata, v);
}

// Ids that SentencePiece vocabularies have by convention when the file does not name them; BERT
// writes [CLS] where others write BOS.
void fill_conventional_ids(Vocabulary& v) {
  if (v.model == "llama" && v.n_tokens() >= 3 && v.bos < 0 && v.eos < 0 && v.unk < 0) {
    v.unk = 0;
    v.bos = 1;
    v.eos = 2;
  }
  if (v.model == "bert" && v.bos < 0) v.bos = v.cls;
}

// Phi-3's tokens take the white space behind them, which its files tell by their name alone; where
// that is spelt otherwise, by the architecture and SentencePiece's tokens, which Phi-4 has not.
bool is_phi3(MetadataView metadata, const Vocabulary& v) {
  const auto architecture = metadata.get_or<std::string_view>("general.architecture", "");
  if (architecture.ok() && *architecture == "phi3" && v.model == "llama") return true;
  const auto named = metadata.get_or<std::string_view>("general.name", "");
  std::string name(named.ok() ? *named : "");
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

Status read_added(MetadataView metadata, Vocabulary& v) {
  AddedTokens added;
  bool has_flags = false;
  for (const auto& [key, flag] : kAddedTokenFlags) {
    if (!metadata.contains(key)) continue;
    has_flags = true;
    BP_ASSIGN(const auto ids, metadata.array<int64_t>(key));
    for (uint64_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= v.n_tokens()) {
        return invalid_argument(fmt::format("{}[{}] is {}, but the vocabulary has {} tokens", key,
                                            i, ids[i], v.n_tokens()));
      }
      const auto id = static_cast<int32_t>(ids[i]);
      added.try_emplace(id, AddedToken{id}).first->second.*flag = true;
    }
  }
  set_added(added, v);
  if (has_flags || !is_phi3(metadata, v)) return {};
  for (int32_t id = 0; id < v.n_tokens(); ++id) {
    const std::string_view text = v.tokens[static_cast<size_t>(id)];
    const bool is_plain = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
    if (is_matched_whole(v.type(id)) && !is_plain) {
      v.added.push_back({.id = id, .takes_space_behind = true});
    }
  }
  return {};
}

Status check_length(std::string_view key, size_t length, size_t n_tokens) {
  if (length == 0 || length == n_tokens) return {};
  return invalid_argument(
      fmt::format("{} has {} elements, but tokenizer.ggml.tokens has {}", key, length, n_tokens));
}

Status check_tokens(const Vocabulary& v) {
  if (v.tokens.empty()) return invalid_argument("tokenizer.ggml.tokens is empty");
  if (v.tokens.size() <= std::numeric_limits<int32_t>::max()) return {};
  return invalid_argument(fmt::format(
      "tokenizer.ggml.tokens has {} elements, at most 2^31-1 have an id", v.tokens.size()));
}

Status check_byte_tokens(const Vocabulary& v) {
  for (size_t i = 0; i < v.types.size(); ++i) {
    if (v.types[i] == TokenType::kByte && !parse_byte_token(v.tokens[i])) {
      return invalid_argument(
          fmt::format("tokenizer.ggml.tokens[{}] is a byte token, but its text is not \"<0xHH>\" "
                      "with two hexadecimal digits",
                      i));
    }
  }
  return {};
}

Status check_special_ids(const Vocabulary& v) {
  for (const SpecialToken& token : kSpecialTokens) {
    const int32_t id = v.*token.id;
    if (id != kNoToken && !v.contains(id)) {
      return invalid_argument(
          fmt::format("{} is {}, but the vocabulary has {} tokens", token.key, id, v.n_tokens()));
    }
  }
  const auto need = [](bool wanted, int32_t id, const char* flag, const char* key) -> Status {
    if (!wanted || id != kNoToken) return {};
    return invalid_argument(fmt::format("{} is true, but {} is missing", flag, key));
  };
  BP_TRY(need(v.add_bos, v.bos, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id"));
  BP_TRY(need(v.add_eos, v.eos, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id"));
  return need(v.add_sep, v.sep, "tokenizer.ggml.add_sep_token",
              "tokenizer.ggml.seperator_token_id");
}

std::optional<uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

bool Vocabulary::is_end_of_generation(int32_t id) const {
  return std::ranges::binary_search(end_of_generation, id);
}

std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto high = hex_digit(text[3]);
  const auto low = hex_digit(text[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<uint8_t>(*high << 4 | *low);
}

Status check_vocabulary(const Vocabulary& v) {
  BP_TRY(check_tokens(v));
  BP_TRY(check_length("tokenizer.ggml.scores", v.scores.size(), v.tokens.size()));
  BP_TRY(check_length("tokenizer.ggml.token_type", v.types.size(), v.tokens.size()));
  const auto nan = std::ranges::find_if(v.scores, [](float s) { return std::isnan(s); });
  if (nan != v.scores.end()) {
    return invalid_argument(
        fmt::format("tokenizer.ggml.scores[{}] is not a number", nan - v.scores.begin()));
  }
  BP_TRY(check_byte_tokens(v));
  return check_special_ids(v);
}

void set_added(const AddedTokens& tokens, Vocabulary& v) {
  v.added.clear();
  for (const auto& [id, token] : tokens) v.added.push_back(token);
}

Result<Vocabulary> read_vocabulary(MetadataView metadata) {
  if (!metadata.contains("tokenizer.ggml.model") && huggingface::has_vocabulary(metadata)) {
    return huggingface::read_vocabulary(metadata);
  }
  Vocabulary v;
  BP_ASSIGN(v.model, metadata.get<std::string_view>("tokenizer.ggml.model"));
  BP_ASSIGN(v.pre, metadata.get_or<std::string_view>("tokenizer.ggml.pre", ""));
  if (v.model == "gemma4") v.pre = "gemma4";  // the model has one, said or not
  BP_TRY(read_strings(metadata, "tokenizer.ggml.tokens", v.tokens));
  BP_TRY(check_tokens(v));
  BP_TRY(read_types(metadata, v.types));
  BP_TRY(read_scores(metadata, v.scores));
  BP_TRY(read_charsmap(metadata, v));
  if (metadata.contains("tokenizer.ggml.merges")) {
    BP_TRY(read_strings(metadata, "tokenizer.ggml.merges", v.merges));
  } else if (v.model == "gpt2" || v.model == "gemma4" || v.model == "whitespace") {
    return invalid_argument("tokenizer.ggml.merges is missing: model \"" + v.model + "\" needs it");
  }
  BP_TRY(read_special_ids(metadata, v));
  fill_conventional_ids(v);
  BP_TRY(read_flags(metadata, v));
  BP_ASSIGN(v.chat_template, metadata.get_or<std::string_view>("tokenizer.chat_template", ""));
  BP_ASSIGN(v.tool_template,
            metadata.get_or<std::string_view>("tokenizer.chat_template.tool_use", ""));
  BP_TRY(check_vocabulary(v));
  find_end_of_generation(v);
  BP_TRY(read_added(metadata, v));
  return v;
}

}  // namespace bp::text

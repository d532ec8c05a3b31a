#pragma once
// Tokenizers made of tokenizer.json texts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backplane/plugin.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::text::testing {

using Json = nlohmann::json;

// Metadata of strings and numbers, by key.
class FolderMetadata {
 public:
  FolderMetadata& set(std::string key, std::string value) {
    texts_.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  FolderMetadata& set_ids(std::string key, std::vector<uint64_t> values) {
    numbers_.emplace_back(std::move(key), std::move(values));
    return *this;
  }
  Result<Vocabulary> read() {
    std::vector<bp_str> views;
    std::vector<bp_metadata> entries;
    views.reserve(texts_.size());
    for (const auto& [key, value] : texts_) {
      views.push_back(to_bp_str(value));
      entries.push_back({to_bp_str(key), BP_META_STRING, 0, 1, &views.back()});
    }
    for (const auto& [key, values] : numbers_) {
      entries.push_back({to_bp_str(key), BP_META_U64, 1, values.size(), values.data()});
    }
    return read_vocabulary({entries});
  }

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<std::pair<std::string, std::vector<uint64_t>>> numbers_;
};

inline Result<std::unique_ptr<Tokenizer>> from_json(const Json& json) {
  BP_ASSIGN(Vocabulary vocabulary,
            FolderMetadata().set("tokenizer.huggingface.json", json.dump()).read());
  return Tokenizer::create(std::move(vocabulary));
}

inline std::unique_ptr<Tokenizer> make(const Json& json) {
  auto tokenizer = from_json(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

inline void expect_refused(const Json& json, const std::string& rule) {
  EXPECT_THAT(from_json(json).status().message(), ::testing::HasSubstr(rule)) << json.dump();
}

// A BPE model of characters: <unk>, the characters, then the outcomes of the merges.
inline Json bpe(const std::vector<std::string>& characters,
                const std::vector<std::string>& merges) {
  Json vocab = {{"<unk>", 0}};
  for (const std::string& text : characters) vocab[text] = vocab.size();
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    vocab[merge] = vocab.size();
  }
  return {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", merges}};
}

// WordPiece over whole words, so that ids tell how a text was normalised and split.
inline Json words(const std::vector<std::string>& texts) {
  Json vocab = {{"[UNK]", 0}};
  for (const std::string& text : texts) vocab[text] = vocab.size();
  return {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}};
}

// The texts of the ids, without what the post-processor adds.
inline std::vector<std::string> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> tokens;
  for (const int32_t id : tokenizer.encode(text, {.add_special = false})) {
    tokens.emplace_back(tokenizer.vocabulary().tokens[static_cast<size_t>(id)]);
  }
  return tokens;
}

}  // namespace bp::text::testing

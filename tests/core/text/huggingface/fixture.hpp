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
    texts_.push_back({std::move(key), std::move(value), 0});
    return *this;
  }
  // Of one text.
  FolderMetadata& set_list(std::string key, std::string value) {
    texts_.push_back({std::move(key), std::move(value), 1});
    return *this;
  }
  FolderMetadata& set_ids(std::string key, std::vector<uint64_t> values) {
    numbers_.push_back({std::move(key), std::move(values), 1});
    return *this;
  }
  FolderMetadata& set_number(std::string key, uint64_t value) {
    numbers_.push_back({std::move(key), {value}, 0});
    return *this;
  }
  Result<Vocabulary> read() {
    std::vector<bp_str> views;
    std::vector<bp_metadata> entries;
    views.reserve(texts_.size());
    for (const Text& t : texts_) {
      views.push_back(to_bp_str(t.value));
      entries.push_back({to_bp_str(t.key), BP_META_STRING, t.is_array, 1, &views.back()});
    }
    for (const Numbers& n : numbers_) {
      entries.push_back(
          {to_bp_str(n.key), BP_META_U64, n.is_array, n.values.size(), n.values.data()});
    }
    return read_vocabulary({entries});
  }

 private:
  struct Text {
    std::string key, value;
    uint32_t is_array;
  };
  struct Numbers {
    std::string key;
    std::vector<uint64_t> values;
    uint32_t is_array;
  };
  std::vector<Text> texts_;
  std::vector<Numbers> numbers_;
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

// Vocabularies of published models against the ids that their own tokenizers give.

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/text/detokenizer.hpp"
#include "tests/core/text/small_vocabulary.hpp"
#include "tests/core/text/tiktoken_vocabulary.hpp"
#include "tests/support/gguf_fixture.hpp"

namespace bp::text {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string text;
  std::vector<int32_t> ids;
};

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Case> read_cases(const fs::path& folder, const std::string& name) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string texts = read_text(folder / (name + ".inp"));
  std::istringstream lines(read_text(folder / (name + ".out")));
  std::vector<Case> cases;
  size_t begin = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = texts.find(kSeparator, begin);
    if (end == std::string::npos) {
      ADD_FAILURE() << name << ".out has more lines than " << name << ".inp has texts";
      return cases;
    }
    Case c{texts.substr(begin, end - begin), {}};
    std::istringstream numbers(line);
    for (int32_t id; numbers >> id;) c.ids.push_back(id);
    cases.push_back(std::move(c));
    begin = end + kSeparator.size();
  }
  return cases;
}

class PublishedVocabularies : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (bp::testing::test_data().empty()) GTEST_SKIP() << "BACKPLANE_TEST_DATA is not set";
    const std::string name = GetParam();
    folder_ = bp::testing::test_data() / "tokenizers";
    if (name == "qwen2") {
      tokenizer_ = testing::make_tokenizer(
          testing::read_tiktoken(bp::testing::test_data() / "vocab" / "qwen.tiktoken", "qwen2"));
    } else {
      const auto file = bp::testing::GgufFile::open(folder_ / (name + ".gguf"));
      ASSERT_TRUE(file.ok()) << file.status().message();
      auto vocabulary = read_vocabulary(file->metadata());
      ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
      tokenizer_ = testing::make_tokenizer(std::move(vocabulary).value());
    }
    ASSERT_NE(tokenizer_, nullptr);
    cases_ = read_cases(folder_, name);
    ASSERT_GT(cases_.size(), 40u);
  }

  fs::path folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Case> cases_;
};

TEST_P(PublishedVocabularies, GiveTheirIds) {
  for (const Case& c : cases_) {
    EXPECT_EQ(tokenizer_->encode(c.text, {.add_special = false, .parse_special = false}), c.ids)
        << c.text;
    EXPECT_EQ(tokenizer_->encode(c.text, {.add_special = false}), c.ids) << c.text;
  }
}

// Lower-casing vocabularies cannot give the text back, but a text of the same ids.
TEST_P(PublishedVocabularies, GiveTheTextBack) {
  const Vocabulary& vocabulary = tokenizer_->vocabulary();
  for (const Case& c : cases_) {
    const std::string decoded = tokenizer_->decode(c.ids);
    const bool has_unknown = std::ranges::find(c.ids, vocabulary.unk) != c.ids.end();
    if (vocabulary.model != "bert") {
      EXPECT_EQ(decoded, c.text);
    } else if (!has_unknown) {
      EXPECT_EQ(tokenizer_->encode(decoded, {.add_special = false}), c.ids) << decoded;
    }
    Detokenizer stream(*tokenizer_);
    std::string streamed;
    for (const int32_t id : c.ids) stream.append(id, streamed);
    stream.flush(streamed);
    EXPECT_EQ(streamed, decoded);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedVocabularies,
                         ::testing::Values("llama-spm", "gpt-2", "qwen2", "deepseek-coder",
                                           "bert-bge"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace bp::text

// Tokenizers of folders as GGUF writes them: the same ids, or a refusal.

#include "core/text/gguf_vocabulary.hpp"
#include "tests/core/text/huggingface/fixture.hpp"

namespace bp::text {
namespace {

using testing::FolderMetadata;
using ::testing::HasSubstr;
using testing::Json;

constexpr const char* kMark = "\u2581";

Result<Vocabulary> converted(const Json& json) {
  BP_ASSIGN(Vocabulary vocabulary,
            FolderMetadata().set("tokenizer.huggingface.json", json.dump()).read());
  return gguf_vocabulary(std::move(vocabulary), 0);
}

const char* const kTexts[] = {"ab ba", "  ab  c ", "Ab, \u00C9e!", "\u4E2D\u6587ab", "a\u0301",
                              "",      " ",        "xyz ab\n\tab"};

void expect_same(const Json& json, const std::string& model) {
  const auto folder = testing::make(json);
  auto vocabulary = converted(json);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().message();
  EXPECT_EQ(vocabulary->model, model);
  const auto file = Tokenizer::create(*std::move(vocabulary));
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (const char* text : kTexts) {
    EXPECT_EQ((*file)->encode(text), folder->encode(text)) << text;
    EXPECT_EQ((*file)->decode((*file)->encode(text)), folder->decode(folder->encode(text)));
  }
}

void expect_refusal(const Json& json, const std::string& part) {
  const auto vocabulary = converted(json);
  ASSERT_FALSE(vocabulary.ok());
  EXPECT_EQ(vocabulary.status().code(), Code::kUnsupported);
  EXPECT_THAT(vocabulary.status().message(), HasSubstr(part));
}

Json special(int id, const char* text) {
  return {{"id", id}, {"content", text}, {"special", true}};
}

Json unigram() {
  const std::string mark = kMark;
  return {{"added_tokens", {special(0, "<unk>"), special(1, "</s>")}},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "always"}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Replace"}, {"pattern", {{"Regex", R"(\A +| +\z)"}}}, {"content", ""}},
              {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}}},
          {"decoder", {{"type", "Metaspace"}, {"prepend_scheme", "always"}}},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", 0},
            {"vocab", Json::array({Json::array({"<unk>", 0.0}), Json::array({"</s>", 0.0}),
                                   Json::array({mark, -2.0}), Json::array({"a", -3.0}),
                                   Json::array({"b", -3.5}), Json::array({mark + "ab", -3.25}),
                                   Json::array({"ba", -4.0}), Json::array({"\u4E2D", -5.0})})}}}};
}

TEST(GgufVocabulary, WritesUnigram) {
  expect_same(unigram(), "t5");
  const auto vocabulary = converted(unigram());
  EXPECT_TRUE(vocabulary->remove_extra_whitespaces && vocabulary->add_space_prefix);
  EXPECT_EQ(vocabulary->type(0), TokenType::kUnknown);

  Json plain = unigram();
  plain["normalizer"] = nullptr;
  plain["pre_tokenizer"]["prepend_scheme"] = "never";
  plain["decoder"]["prepend_scheme"] = "never";
  expect_same(plain, "t5");
  EXPECT_FALSE(converted(plain)->add_space_prefix);
}

TEST(GgufVocabulary, PadsUnigramWithWhatIsNeverLikely) {
  auto vocabulary = FolderMetadata().set("tokenizer.huggingface.json", unigram().dump()).read();
  const auto padded = gguf_vocabulary(*std::move(vocabulary), 10);
  ASSERT_TRUE(padded.ok());
  ASSERT_EQ(padded->scores.size(), 10U);
  EXPECT_LT(padded->scores[9], -1000);
  EXPECT_EQ(padded->type(9), TokenType::kUnused);
}

TEST(GgufVocabulary, RefusesUnigramThatGgufCannotSay) {
  Json json = unigram();
  json["model"]["byte_fallback"] = true;
  expect_refusal(json, "byte_fallback");
  json = unigram();
  json["normalizer"] = {{"type", "Lowercase"}};
  expect_refusal(json, "make of words");
  json = unigram();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {json["pre_tokenizer"], {{"type", "Punctuation"}}}}};
  expect_refusal(json, "make of words");
  json = unigram();
  json["model"].erase("unk_id");
  expect_refusal(json, "unk_id");
}

// As GLM 4 has them: eos and two that no text tells.
TEST(GgufVocabulary, NamesEndsThatNoTextTells) {
  Vocabulary v;
  v.model = "gpt2";
  v.tokens = {"a", "<|endoftext|>", "<|im_end|>", "<|user|>", "<|observation|>"};
  v.eos = 1;
  v.end_of_generation = {1, 2, 3, 4};
  const auto named = gguf_vocabulary(v, 0);
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_EQ(named->eot, 3);
  EXPECT_EQ(named->eom, 4);
  v.end_of_generation = {1, 2, 4};
  EXPECT_EQ(gguf_vocabulary(v, 0)->eot, 4);
  EXPECT_EQ(gguf_vocabulary(v, 0)->eom, 2);
  v.eom = 4;
  EXPECT_EQ(gguf_vocabulary(v, 0)->eot, 2);
  EXPECT_EQ(gguf_vocabulary(v, 0)->eom, 4);
}

Json wordpiece(bool lowers, Json strips = nullptr) {
  Json vocab = Json::object();
  for (const char* text :
       {"[UNK]", "[CLS]", "[SEP]", "ab", "a", "##b", "##a", "b", "c", "Ab", ",", "!", "\u4E2D"}) {
    vocab[text] = vocab.size();
  }
  return {{"added_tokens", {special(0, "[UNK]"), special(1, "[CLS]"), special(2, "[SEP]")}},
          {"normalizer",
           {{"type", "BertNormalizer"}, {"lowercase", lowers}, {"strip_accents", strips}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}}},
          {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
}

TEST(GgufVocabulary, WritesWordPiece) {
  for (const bool lowers : {true, false}) {
    for (const Json& strips : {Json(nullptr), Json(true), Json(false)}) {
      const Json json = wordpiece(lowers, strips);
      expect_same(json, "bert");
      const auto vocabulary = converted(json);
      EXPECT_EQ(vocabulary->lowercase, lowers);
      EXPECT_EQ(vocabulary->strip_accents, strips.is_null() ? lowers : strips.get<bool>());
      EXPECT_EQ(vocabulary->tokens[3], std::string(kMark) + "ab");
      EXPECT_EQ(vocabulary->tokens[5], "b");
    }
  }
}

TEST(GgufVocabulary, RefusesWordPieceThatGgufCannotSay) {
  Json json = wordpiece(true);
  json["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  expect_refusal(json, "make of words");
  json = wordpiece(true);
  json["normalizer"]["clean_text"] = false;
  expect_refusal(json, "make of words");
  json = wordpiece(true);
  json["model"]["max_input_chars_per_word"] = 20;
  expect_refusal(json, "WordPiece");
}

// a+b and ab+c, in this order; abc is no merge of a and bc.
Json character_bpe(bool complete) {
  Json vocab = {{"<unk>", 0}};
  constexpr char kHex[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = byte + 1;
  }
  for (const char* text : {"a", "b", "c", kMark, "ab", "bc", "abc"}) vocab[text] = vocab.size();
  Json merges = {"b c", "a b", "ab c"};
  if (complete) merges.push_back("a bc");
  return {{"added_tokens", {special(0, "<unk>")}},
          {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", merges}}}};
}

TEST(GgufVocabulary, WritesMergesAsScoresWhereTheyAreAnOrderOfTokens) {
  expect_same(character_bpe(true), "llama");
  expect_same(character_bpe(false), "gpt2");
  EXPECT_EQ(converted(character_bpe(false))->pre, "sarvam-moe");
  Json json = character_bpe(true);
  json["model"]["byte_fallback"] = false;
  expect_refusal(json, "byte_fallback");
}

TEST(GgufVocabulary, KeepsTheMergesOfTokensTooLongToCutEverywhere) {
  Json json = character_bpe(true);
  Json& vocab = json["model"]["vocab"];
  vocab[std::string(1024, 'c')] = vocab.size();
  expect_same(json, "llama");
  vocab[std::string(1025, 'b')] = vocab.size();
  expect_same(json, "gpt2");
}

TEST(GgufVocabulary, RefusesACharsmapOfBpe) {
  Vocabulary v;
  v.model = "llama";
  v.tokens = {"a"};
  v.scores = {0};
  v.charsmap = "x";
  EXPECT_THAT(gguf_vocabulary(v, 0).status().message(), HasSubstr("charsmap"));
}

}  // namespace
}  // namespace bp::text

// Special tokens, added tokens, templates, and files that break a rule.

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/text/huggingface/decoder.hpp"
#include "fixture.hpp"

namespace bp::text {
namespace {

using testing::bpe;
using ::testing::ElementsAre;
using testing::expect_refused;
using testing::FolderMetadata;
using ::testing::IsEmpty;
using testing::Json;
using testing::make;
using testing::tokens_of;

Json added(int id, const char* text, Json flags = Json::object()) {
  Json token = {{"id", id}, {"content", text}, {"special", false}, {"normalized", false}};
  token.update(flags);
  return token;
}

Json with_added(const Json& token) {
  return {{"model", bpe({"a", "b", " ", "x"}, {})},
          {"added_tokens", {token}},
          {"decoder", {{"type", "Fuse"}}}};
}

TEST(AddedTokens, TakeTheSpaceTheyAskFor) {
  EXPECT_THAT(tokens_of(*make(with_added(added(9, "<m>"))), "a <m> b"),
              ElementsAre("a", " ", "<m>", " ", "b"));
  EXPECT_THAT(tokens_of(*make(with_added(added(9, "<m>", {{"lstrip", true}}))), "a  <m> b"),
              ElementsAre("a", "<m>", " ", "b"));
  EXPECT_THAT(tokens_of(*make(with_added(added(9, "<m>", {{"rstrip", true}}))), "a <m> \nb"),
              ElementsAre("a", " ", "<m>", "b"));
}

TEST(AddedTokens, CanBeWholeWordsAlone) {
  const auto tokenizer = make(with_added(added(9, "ab", {{"single_word", true}})));
  EXPECT_THAT(tokens_of(*tokenizer, "ab abx xab ab"),
              ElementsAre("ab", " ", "a", "b", "x", " ", "x", "a", "b", " ", "ab"));
}

// The characters that make a word: not all numbers, but joiners and letters in circles.
TEST(AddedTokens, KnowWhatAWordIs) {
  const auto tokenizer = make(with_added(added(9, "ab", {{"single_word", true}})));
  const auto has_token = [&](const std::string& text) {
    const auto ids = tokenizer->encode(text);
    return std::ranges::find(ids, 9) != ids.end();
  };
  EXPECT_TRUE(has_token("\u2083ab") && has_token("ab\u00B2") && has_token("(ab)"));
  EXPECT_FALSE(has_token("ab\u200D") || has_token("\U0001F170ab") || has_token("ab\u0903"));
}

TEST(AddedTokens, AreFoundInTheNormalizedText) {
  Json json = with_added(added(9, "AB", {{"normalized", true}}));
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_THAT(tokens_of(*make(json), "xAbab"), ElementsAre("x", "AB", "AB"));
  json["added_tokens"][0]["normalized"] = false;
  EXPECT_THAT(tokens_of(*make(json), "abAB"), ElementsAre("a", "b", "AB"));
}

TEST(AddedTokens, GiveBackTheSpaceThatOnlyTheFirstTextLoses) {
  const std::string mark = "\u2581";
  Json json = {{"model", bpe({"a", mark, "x"}, {})},
               {"added_tokens", {added(9, "<m>", {{"special", true}})}},
               {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "first"}}},
               {"decoder", {{"type", "Metaspace"}, {"prepend_scheme", "first"}}}};
  const auto back = [&](const char* text) {
    const auto tokenizer = make(json);
    return tokenizer->decode(tokenizer->encode(text), {.special = true});
  };
  EXPECT_EQ(back("a<m> x"), "a<m> x");
  EXPECT_EQ(back("<m>x"), "<m>x");
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_EQ(back("a<m>x"), "a<m>x");
}

// Of <n> at each id; the last one stands twice.
std::string many_added(const std::vector<int>& ids) {
  std::string json = R"({"model": )" + bpe({"a", "b"}, {}).dump() + R"(, "added_tokens": [)";
  for (const int id : ids) {
    const std::string number = std::to_string(id);
    json += R"({"id": )" + number + R"(, "content": "<)" + number + R"(>"}, )";
  }
  const std::string number = std::to_string(ids.back());
  return json + R"({"id": )" + number + R"(, "content": "<)" + number + R"(>", "rstrip": true}]})";
}

TEST(AddedTokens, ComeInAnyOrderAndTheLastOfAnIdCounts) {
  std::vector<int> ids(300'000);
  std::iota(ids.begin(), ids.end(), 3);
  const auto seconds = [&] {
    FolderMetadata metadata;
    metadata.set("tokenizer.huggingface.json", many_added(ids));
    const auto start = std::chrono::steady_clock::now();
    const auto v = metadata.read();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(v.ok()) << v.status().message();
    if (!v.ok()) return 0.0;
    EXPECT_EQ(v->added.size(), ids.size());
    EXPECT_TRUE(std::ranges::is_sorted(v->added, {}, &AddedToken::id));
    EXPECT_TRUE(v->added[static_cast<size_t>(ids.back() - 3)].takes_space_behind);
    return elapsed.count();
  };
  const double ascending = seconds();
  std::ranges::reverse(ids);
  EXPECT_LT(seconds(), 5 * ascending) << "a quadratic step takes seconds";
}

TEST(AddedTokens, SpecialOnesAreControl) {
  const auto tokenizer = make(with_added(added(9, "<m>", {{"special", true}})));
  EXPECT_TRUE(tokenizer->is_control(9));
  EXPECT_EQ(tokenizer->encode("<m>"), std::vector<int32_t>{9});
  EXPECT_THAT(tokenizer->encode("<m>", {.parse_special = false}), ::testing::Each(0));
}

TEST(PostProcessors, TemplatesPutIdsAroundTheText) {
  const Json step = {{"type", "TemplateProcessing"},
                     {"single",
                      {{{"SpecialToken", {{"id", "<m>"}, {"type_id", 0}}}},
                       {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                       {{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}}}},
                     {"special_tokens", {{"<m>", {{"ids", {9}}}}, {"x", {{"ids", {4, 1}}}}}}};
  Json json = with_added(added(9, "<m>", {{"special", true}}));
  json["post_processor"] = step;
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->encode("a"), (std::vector<int32_t>{9, 1, 4, 1}));
  EXPECT_EQ(tokenizer->encode("a", {.add_special = false}), std::vector<int32_t>{1});
  EXPECT_THAT(tokenizer->prefix(), ElementsAre(9));
  json["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"<m>", 9}}, {"sep", {"x", 4}}};
  EXPECT_EQ(make(json)->encode("a"), (std::vector<int32_t>{9, 1, 4}));
}

Json small() {
  Json json = {{"model", bpe({"a", "b"}, {})}, {"added_tokens", Json::array()}};
  for (const char* text : {"<s>", "</s>", "<end>", "<pad>"}) {
    json["added_tokens"].push_back(
        added(3 + static_cast<int>(json["added_tokens"].size()), text, {{"special", true}}));
  }
  return json;
}

TEST(Folders, SpecialTokensComeFromTheFilesBeside) {
  const Json config = {{"bos_token", "<s>"},
                       {"eos_token", {{"content", "</s>"}}},
                       {"chat_template", "{{ messages }}"}};
  const auto v = FolderMetadata()
                     .set("tokenizer.huggingface.json", small().dump())
                     .set("tokenizer.huggingface.config", config.dump())
                     .set("tokenizer.huggingface.special_tokens_map", R"({"pad_token": "<pad>"})")
                     .set_ids("config.eos_token_id", {4})
                     .set_ids("generation_config.eos_token_id", {4, 5, 4000})
                     .set_number("config.vocab_size", 5000)
                     .read();
  ASSERT_TRUE(v.ok()) << v.status().message();
  EXPECT_EQ(v->bos, 3);
  EXPECT_EQ(v->eos, 4);
  EXPECT_EQ(v->pad, 6);
  EXPECT_EQ(v->unk, 0);
  EXPECT_THAT(v->end_of_generation, ElementsAre(4, 5));
  EXPECT_EQ(v->chat_template, "{{ messages }}");
  EXPECT_FALSE(v->add_bos);
}

TEST(Folders, IdsAreOfTheVocabularyOrOfTheModel) {
  const auto error_of = [](FolderMetadata&& metadata) {
    return metadata.set("tokenizer.huggingface.json", small().dump()).read().status().message();
  };
  for (const char* key : {"config.eos_token_id", "config.bos_token_id",
                          "generation_config.eos_token_id", "generation_config.bos_token_id"}) {
    const std::string place = "metadata \"" + std::string(key) + "\": ";
    EXPECT_EQ(error_of(std::move(FolderMetadata().set_number(key, 6))), "");
    EXPECT_EQ(error_of(std::move(FolderMetadata().set_number(key, 7))),
              place + "id 7 is none of the 7 tokens");
    EXPECT_EQ(error_of(std::move(FolderMetadata().set_ids(key, {3, 99999}))),
              place + "id 99999 is none of the 7 tokens");
    EXPECT_EQ(error_of(std::move(FolderMetadata().set_number(key, UINT64_MAX))),
              place + "expected ids of tokens, found u64 18446744073709551615");
    EXPECT_EQ(error_of(std::move(FolderMetadata().set(key, "</s>"))),
              place + "expected ids of tokens, found string");
    EXPECT_EQ(error_of(std::move(FolderMetadata()
                                     .set_list("huggingface.untyped_keys", key)
                                     .set_list("huggingface.untyped_values", "{}"))),
              place + "expected a plain value or a list of them, found {}");
  }
  // Of padding files say what they like.
  EXPECT_EQ(error_of(std::move(FolderMetadata().set_number("config.pad_token_id", 99999))), "");
}

TEST(Folders, TheConfigDecidesForClassesThatAskIt) {
  const auto prefix_of = [](const Json& config) {
    auto v = FolderMetadata()
                 .set("tokenizer.huggingface.json", small().dump())
                 .set("tokenizer.huggingface.config", config.dump())
                 .read();
    EXPECT_TRUE(v.ok()) << v.status().message();
    auto tokenizer = Tokenizer::create(*std::move(v));
    return (*tokenizer)->encode("");
  };
  Json config = {{"bos_token", "<s>"}, {"add_bos_token", true}};
  EXPECT_THAT(prefix_of(config), IsEmpty());
  config["tokenizer_class"] = "LlamaTokenizer";
  EXPECT_THAT(prefix_of(config), ElementsAre(3));
}

TEST(Folders, TheTemplateFileComesFirst) {
  const Json config = {
      {"chat_template",
       {{{"name", "tool_use"}, {"template", "T"}}, {{"name", "default"}, {"template", "D"}}}}};
  FolderMetadata metadata;
  metadata.set("tokenizer.huggingface.json", small().dump())
      .set("tokenizer.huggingface.config", config.dump());
  EXPECT_EQ(metadata.read()->chat_template, "D");
  EXPECT_EQ(metadata.read()->tool_template, "T");
  EXPECT_EQ(metadata.set("tokenizer.chat_template", "F").read()->chat_template, "F");
  EXPECT_EQ(metadata.read()->tool_template, "");
}

TEST(BrokenFiles, AreRefusedInASentence) {
  expect_refused(Json::array(), "no JSON object");
  expect_refused({{"a", 1}}, "has no model");
  expect_refused({{"model", {{"type", "BPE"}}}}, "lacks a vocab");
  expect_refused({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}}}}, "lacks merges");
  expect_refused({{"model", {{"type", "BPE"}, {"vocab", {{"a", "x"}}}, {"merges", Json::array()}}}},
                 "has no id");
  for (const int64_t id : {int64_t{-1}, int64_t{1} << 24, int64_t{1} << 40}) {
    expect_refused(
        {{"model", {{"type", "BPE"}, {"vocab", {{"a", id}}}, {"merges", Json::array()}}}},
        "has the id");
  }
  expect_refused(
      {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 0}}}, {"merges", Json::array()}}}},
      "id 0 is of");
  for (const Json& merge : {Json("ab"), Json(" a"), Json(1), Json({"a"})}) {
    expect_refused({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {merge}}}}},
                   "merge 0: is not two texts");
  }
  expect_refused({{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", {"a b"}}}}},
                 "are no tokens");
  expect_refused({{"model", {{"type", "Unigram"}, {"vocab", {{"a", 0}}}}}}, "wrong type");
  const Json pair = Json::array({Json::array({"a", "b"})});
  expect_refused({{"model", {{"type", "Unigram"}, {"vocab", pair}}}}, "entry 0 of vocab");
  expect_refused({{"model", {{"type", "Sorcery"}, {"vocab", {{"a", 0}}}}}}, "\"Sorcery\"");
}

TEST(BrokenFiles, SayWhereTheyBreakOff) {
  const auto error_of = [](const char* text) {
    return FolderMetadata().set("tokenizer.huggingface.json", text).read().status().message();
  };
  EXPECT_EQ(error_of("{\"model\": {\n\n\"vocab\" 5}}"),
            "tokenizer.json: no valid JSON at byte 22 (line 3)");
  EXPECT_EQ(error_of("{\"a\": "), "tokenizer.json: no valid JSON at byte 6 (line 1)");
  EXPECT_EQ(error_of(""), "tokenizer.json: no valid JSON at byte 0 (line 1)");
  EXPECT_EQ(error_of("{} x"), "tokenizer.json: no valid JSON at byte 4 (line 1)");
}

TEST(BrokenFiles, MembersAreOfTheirKinds) {
  const auto with = [](const char* part, const Json& step) {
    Json json = small();
    json[part] = step;
    return json;
  };
  expect_refused(with("normalizer", {{"type", "Prepend"}, {"prepend", {{"a", 1}}}}),
                 R"(tokenizer.json: member "prepend" must be a text, found {"a":1})");
  expect_refused(with("normalizer", {{"type", "Strip"}, {"strip_left", 1}}),
                 R"(member "strip_left" must be true or false, found 1)");
  expect_refused(
      with("decoder", {{"type", "Sequence"}, {"decoders", {{{"type", "Strip"}, {"content", 5}}}}}),
      R"(member "content" must be a text, found 5)");
  expect_refused(with("decoder", {{"type", "Strip"}, {"content", " "}, {"start", "x"}}),
                 R"(member "start" must be a whole number, found "x")");
  for (const char* flag : {"byte_fallback", "fuse_unk", "ignore_merges"}) {
    Json json = small();
    json["model"][flag] = "x";
    expect_refused(json, "member \"" + std::string(flag) + "\" must be true or false");
    json["model"][flag] = nullptr;
    EXPECT_NE(make(json), nullptr);
  }
  Json json = small();
  json["added_tokens"][0]["special"] = 1;
  expect_refused(json, R"(member "special" must be true or false, found 1)");
  json = small();
  json["added_tokens"][0]["id"] = "x";
  expect_refused(json, R"(added token "<s>" has no whole number as id)");
  expect_refused(with("post_processor", {{"type", "TemplateProcessing"},
                                         {"single", {{{"Sequence", {{"id", "A"}}}}, "zz"}}}),
                 "a piece of single");
}

TEST(BrokenFiles, NoMemberStandsTwice) {
  const auto error_of = [](const char* text) {
    return FolderMetadata().set("tokenizer.huggingface.json", text).read().status().message();
  };
  EXPECT_EQ(error_of(R"({"normalizer": {"type": "NFC"}, "normalizer": null})"),
            "tokenizer.json: member \"normalizer\" stands twice");
  EXPECT_EQ(error_of(R"({"model": {"vocab": {"a": 0, "b": 1, "a": 2}}})"),
            "tokenizer.json: member \"a\" stands twice in model.vocab");
  EXPECT_EQ(error_of(R"({"x": [1, {"a": [[], {"b": 0, "b": 0}]}]})"),
            "tokenizer.json: member \"b\" stands twice in x[1].a[1]");
}

TEST(BrokenFiles, NestToADepthAlone) {
  constexpr size_t kDeep = 100'000;
  const std::string nested = std::string(kDeep, '[') + std::string(kDeep, ']');
  const std::string config = R"({"added_tokens_decoder": {"9": {"content": )" + nested + "}}}";
  for (const char* key : {"tokenizer.huggingface.config", "tokenizer.huggingface.json",
                          "tokenizer.huggingface.special_tokens_map"}) {
    FolderMetadata metadata;
    metadata.set(key, config);
    if (key != std::string("tokenizer.huggingface.json")) {
      metadata.set("tokenizer.huggingface.json", small().dump());
    }
    EXPECT_THAT(metadata.read().status().message(),
                ::testing::HasSubstr(": it nests deeper than 64 levels"));
  }
  Json json = small();
  json["unused"] = Json::parse(std::string(63, '[') + std::string(63, ']'));
  EXPECT_NE(make(json), nullptr);
}

TEST(BrokenFiles, LongReplacementsOfADecoderAreRefused) {
  Json json = small();
  json["decoder"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1025, 'x')}};
  expect_refused(json, "tokenizer.json: Replace has a content of 1025 bytes; allowed are 1024");
}

TEST(Decoders, RenderLittleOfAToken) {
  const Json step = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}};
  const Json json = {{"type", "Sequence"}, {"decoders", {step, step, step}}};
  const auto decoder = huggingface::Decoder::parse(&json);
  ASSERT_TRUE(decoder.ok()) << decoder.status().message();
  EXPECT_LT(decoder->render("aaa", TokenType::kNormal).size(), 5000u);
}

TEST(BrokenFiles, StepsThatAreUnknownAreNamed) {
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    Json json = small();
    json[part] = {{"type", "Sorcery"}};
    expect_refused(json, "\"Sorcery\" is not supported");
    json[part] = {{"type", "Sequence"}};
    expect_refused(json, "a Sequence without a list");
  }
  Json json = small();
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}};
  expect_refused(json, "regular expression '(a'");
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Odd"}};
  expect_refused(json, "\"Odd\"");
  json = small();
  json["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "//////8="}};
  expect_refused(json, "charsmap");
}

// Time stays linear where regular expressions backtrack.
TEST(HostileText, IsEncodedInTime) {
  Json json = {{"model", bpe({"a", "\u0120"}, {"a a", "aa aa", "\u0120 \u0120"})},
               {"pre_tokenizer",
                {{"type", "Sequence"},
                 {"pretokenizers",
                  {{{"type", "Split"},
                    {"pattern", {{"Regex", R"((?:\s*[\r\n]+|\s+(?!\S)|\s+|\p{L}+))"}}},
                    {"behavior", "Isolated"}},
                   {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}}}}}}};
  json["model"]["unk_token"] = nullptr;
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, 'a')).size(), 250'000u);
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, ' ')).size(), 500'000u);
}

}  // namespace
}  // namespace bp::text

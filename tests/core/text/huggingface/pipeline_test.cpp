// What normalizers, pre-tokenizers, models and decoders of tokenizer.json do to a text; expected
// outcomes are those of the tokenizers package.

#include "fixture.hpp"

#include <cstring>

#include "core/text/huggingface/charsmap.hpp"
#include "core/text/huggingface/graphemes.hpp"
#include "core/text/huggingface/growth.hpp"
#include "core/text/huggingface/normalizer.hpp"
#include "core/text/huggingface/splitter.hpp"

namespace bp::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Json;
using testing::make;
using testing::tokens_of;

std::string normalized(const Json& json, std::string_view text) {
  const auto normalizer = huggingface::Normalizer::parse(&json);
  EXPECT_TRUE(normalizer.ok()) << normalizer.status().message();
  return normalizer.ok() ? normalizer->apply(text) : "";
}

std::vector<std::string> split(const Json& json, std::string_view text) {
  std::vector<std::string> pieces;
  const auto splitter = huggingface::Splitter::parse(&json);
  EXPECT_TRUE(splitter.ok()) << splitter.status().message();
  if (!splitter.ok()) return pieces;
  splitter->for_each_piece(text, true, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

Json split_by(const Json& pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

TEST(Normalizers, UnicodeForms) {
  EXPECT_EQ(normalized({{"type", "NFC"}}, "e\u0301 \uFB01"), "\u00E9 \uFB01");
  EXPECT_EQ(normalized({{"type", "NFD"}}, "\u00E9"), "e\u0301");
  EXPECT_EQ(normalized({{"type", "NFKC"}}, "\uFB01\u2460\uFF21"), "fi1A");
  EXPECT_EQ(normalized({{"type", "NFKD"}}, "\u00E9\uFB01"), "e\u0301fi");
  EXPECT_EQ(normalized({{"type", "NFC"}}, "e\u0301\xFFx"), "\u00E9\xFFx") << "no UTF-8 passes";
}

TEST(Normalizers, CharacterChanges) {
  EXPECT_EQ(normalized({{"type", "Lowercase"}}, "A\u0130\u03A3"), "ai\u0307\u03C3");
  EXPECT_EQ(normalized({{"type", "StripAccents"}}, "e\u0301\u0903x"), "ex");
  EXPECT_EQ(
      normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}, " \ta b\n"),
      "a b");
  EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}, " a "),
            " a");
  EXPECT_EQ(normalized({{"type", "Nmt"}}, "a\x01\u200Bb\tc"), "a b c");
}

constexpr size_t kEnough = 4096;  // bytes of any outcome

std::string times(size_t n, const std::string& part) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += part;
  return out;
}

// A charsmap whose trie takes any number of "a" and replaces them all.
std::string endless_charsmap(const std::string& replacement) {
  constexpr uint32_t kRoot = 0x100, kHasLeaf = 1 << 8;
  std::vector<uint32_t> trie(512);
  trie[0] = kRoot << 10;
  trie[kRoot ^ 'a'] = 'a' << 10 | kHasLeaf | 'a';
  const uint32_t trie_bytes = 4 * static_cast<uint32_t>(trie.size());
  std::string bytes(sizeof trie_bytes + trie_bytes, '\0');
  std::memcpy(bytes.data(), &trie_bytes, sizeof trie_bytes);
  std::memcpy(bytes.data() + sizeof trie_bytes, trie.data(), trie_bytes);
  return bytes + replacement + '\0';
}

TEST(Normalizers, RulesOfACharsmapHaveALongestTextAndReplacement) {
  const auto map = huggingface::Charsmap::parse(endless_charsmap("x"));
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(map->apply("aa", kEnough), "x");
  EXPECT_EQ(map->apply(std::string(4 * huggingface::Charsmap::kMaxTextBytes, 'a'), kEnough),
            "xxxx");
  const size_t most = huggingface::kMaxReplacementBytes;
  EXPECT_TRUE(huggingface::Charsmap::parse(endless_charsmap(std::string(most, 'x'))).ok());
  EXPECT_THAT(
      huggingface::Charsmap::parse(endless_charsmap(std::string(most + 1, 'x'))).status().message(),
      ::testing::HasSubstr("replacement"));
}

TEST(Normalizers, CharsmapsMakeNoMoreThanTheyMay) {
  const std::string longest(huggingface::kMaxReplacementBytes, 'x');
  const auto map = huggingface::Charsmap::parse(endless_charsmap(longest));
  ASSERT_TRUE(map.ok()) << map.status().message();
  const std::string text = times(1000, "ab");
  EXPECT_LT(map->apply(text, kEnough).size(), kEnough + longest.size() + text.size());
  EXPECT_LT(map->apply_to_graphemes(text, kEnough).size(), kEnough + longest.size() + text.size());
  EXPECT_EQ(map->apply("aab", 0), "aab");
}

TEST(Normalizers, CharsmapsReplaceGraphemesOfFewBytesWhole) {
  const auto map = huggingface::Charsmap::parse(endless_charsmap("x"));
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(map->apply_to_graphemes("aa\u0301b\u0301", kEnough), "xxb\u0301");
  EXPECT_EQ(map->apply_to_graphemes("a\u0301\u0302", kEnough), "x");
  EXPECT_EQ(map->apply_to_graphemes("a\u0301\u0302\u0303", kEnough), "x\u0301\u0302\u0303");
  EXPECT_EQ(map->apply_to_graphemes("\xFF"
                                    "a\xCC",
                                    kEnough),
            "\xFFx\xCC")
      << "no UTF-8 passes";
}

TEST(Graphemes, EndAsTheAnnexSays) {
  const std::pair<std::string, size_t> kFirst[] = {
      {"ab", 1},
      {"\r\n\n", 2},
      {"\n\r", 1},
      {"a\r", 1},
      {"\n\u0301", 1},
      {"e\u0301\u0302x", 5},
      {"\u0915\u093F\u0915", 6},
      {"\u0600ab", 3},
      {"\u0600\n", 2},
      {"\u1100\u1161\u11A8\u1100", 9},
      {"\uAC00\u11A8\u1161", 6},
      {"\U0001F1E6\U0001F1E7\U0001F1E8", 8},
      {"\U0001F468\u200D\U0001F469\U0001F469", 11},
      {"\U0001F468\u0301\u200D\U0001F469", 13},
      {"a\u200D\U0001F469", 4},
      {"\U0001F468\u200D\u200D\U0001F469", 10},
      {"\U0001F468\u200D\u0301\U0001F469", 9},
      {"\xFF\u0301", 1},
  };
  for (const auto& [text, size] : kFirst) {
    EXPECT_EQ(huggingface::grapheme_size(text), size) << ::testing::PrintToString(text);
  }
}

// Of lines, as Oniguruma has it.
TEST(Normalizers, AnchorsAreOfLines) {
  const Json ends = {{"type", "Replace"}, {"pattern", {{"Regex", "^ +| +$"}}}, {"content", "_"}};
  EXPECT_EQ(normalized(ends, " a b \n  c "), "_a b_\n_c_");
  const Json digits = {{"type", "Replace"}, {"pattern", {{"Regex", "\\h"}}}, {"content", "_"}};
  EXPECT_FALSE(huggingface::Normalizer::parse(&digits).ok());
}

TEST(Normalizers, PrependAndReplace) {
  const Json llama = {{"type", "Sequence"},
                      {"normalizers",
                       {{{"type", "Prepend"}, {"prepend", "_"}},
                        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "_"}}}}};
  EXPECT_EQ(normalized(llama, "a b"), "_a_b");
  EXPECT_EQ(normalized(llama, ""), "");
  EXPECT_EQ(normalized({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}},
                       "a   b c"),
            "a b c");
}

TEST(Normalizers, ReplacementsOfReplacementsEnd) {
  const Json step = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(60, 'a')}};
  Json bomb = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 8; ++i) bomb["normalizers"].push_back(step);
  EXPECT_LT(normalized(bomb, "a").size(), 1'000'000u);
  EXPECT_EQ(normalized(step, "ba").size(), 61u);
}

TEST(Normalizers, ReplacementsAreShortAndEndWithinAStep) {
  const size_t most = huggingface::kMaxReplacementBytes;
  const auto replace = [](size_t n_bytes) -> Json {
    return {{"type", "Replace"},
            {"pattern", {{"String", "a"}}},
            {"content", std::string(n_bytes, 'x')}};
  };
  const std::string text(100'000, 'a');
  EXPECT_LT(normalized(replace(most), text).size(), 70 * text.size());
  EXPECT_EQ(normalized(replace(64), text).size(), 64 * text.size());
  const Json prepend = {{"type", "Prepend"}, {"prepend", std::string(most + 1, 'x')}};
  for (const Json& step : {replace(most + 1), prepend}) {
    EXPECT_THAT(huggingface::Normalizer::parse(&step).status().message(),
                ::testing::HasSubstr("of 1025 bytes; allowed are 1024"));
  }
}

TEST(Normalizers, Bert) {
  const Json uncased = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", true}};
  EXPECT_EQ(normalized(uncased, "\u00C9t\u00E9\u200B\t\u4E2D!"), "ete  \u4E2D !");
  Json cased = uncased;
  cased["lowercase"] = false;
  EXPECT_EQ(normalized(cased, "\u00C9"), "\u00C9");
}

TEST(Splits, Behaviors) {
  const Json dash = {{"String", "-"}};
  EXPECT_THAT(split(split_by(dash, "Isolated"), "a-b--c"),
              ElementsAre("a", "-", "b", "-", "-", "c"));
  EXPECT_THAT(split(split_by(dash, "Removed"), "a-b--c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split(split_by(dash, "Contiguous"), "a-b--c"), ElementsAre("a", "-", "b", "--", "c"));
  EXPECT_THAT(split(split_by(dash, "MergedWithPrevious"), "a-b--c"),
              ElementsAre("a-", "b-", "-", "c"));
  EXPECT_THAT(split(split_by(dash, "MergedWithNext"), "a-b--c"), ElementsAre("a", "-b", "-", "-c"));
  EXPECT_THAT(split(split_by({{"Regex", "[a-z]+"}}, "Removed", true), "ab1cd"),
              ElementsAre("ab", "cd"));
  EXPECT_THAT(split(split_by(dash, "Removed"), "--"), IsEmpty());
}

TEST(Splits, Metaspace) {
  Json metaspace = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "always"}};
  EXPECT_THAT(split(metaspace, "a  b"), ElementsAre("_a", "_", "_b"));
  EXPECT_THAT(split(metaspace, " a"), ElementsAre("_a"));
  metaspace["split"] = false;
  EXPECT_THAT(split(metaspace, "a b"), ElementsAre("_a_b"));
  metaspace["prepend_scheme"] = "never";
  EXPECT_THAT(split(metaspace, "a b"), ElementsAre("a_b"));
}

TEST(Splits, MetaspaceStandsOnceWithOneCharacter) {
  Json metaspace = {{"type", "Metaspace"}, {"replacement", "__"}};
  EXPECT_THAT(huggingface::Splitter::parse(&metaspace).status().message(),
              ::testing::HasSubstr("no single character"));
  metaspace["replacement"] = "_";
  const Json steps = {
      {"type", "Sequence"},
      {"pretokenizers", {metaspace, split_by({{"Regex", "."}}, "Isolated"), metaspace}}};
  EXPECT_THAT(huggingface::Splitter::parse(&steps).status().message(),
              ::testing::HasSubstr("Metaspace stands twice"));
}

TEST(Splits, CharacterKinds) {
  EXPECT_THAT(split({{"type", "Digits"}, {"individual_digits", true}}, "a12"),
              ElementsAre("a", "1", "2"));
  EXPECT_THAT(split({{"type", "Digits"}, {"individual_digits", false}}, "a12"),
              ElementsAre("a", "12"));
  EXPECT_THAT(split({{"type", "Punctuation"}}, "a$\u3002b"), ElementsAre("a", "$", "\u3002", "b"));
  EXPECT_THAT(split({{"type", "Whitespace"}}, "a_1 e\u0301,; b"),
              ElementsAre("a_1", "e\u0301", ",;", "b"));
  EXPECT_THAT(split({{"type", "WhitespaceSplit"}}, " a\u3000b,\n"), ElementsAre("a", "b,"));
  EXPECT_THAT(split({{"type", "BertPreTokenizer"}}, "don't  go"),
              ElementsAre("don", "'", "t", "go"));
  EXPECT_THAT(split({{"type", "CharDelimiterSplit"}, {"delimiter", ","}}, "a,b"),
              ElementsAre("a", "b"));
}

// The hand-written matcher and the regular expression give the same pieces.
TEST(Splits, AKnownPatternAndItsRegexAgree) {
  const std::string known =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json fast = split_by({{"Regex", known}}, "Isolated");
  const Json general = split_by({{"Regex", "(?:" + known + ")"}}, "Isolated");
  for (const char* text : {"Hello, world's 12345!!\n\n  x", "  \t a\r\n b", "'LL 've\u00A0\u3000y",
                           "\u00E9\u0301 \u0967\u0968", "   ", "a\u2028b",
                           "\u6F22\u5B57 \U0001F600\U0001F600 ok?\n"}) {
    EXPECT_EQ(split(fast, text), split(general, text)) << text;
  }
}

TEST(Splits, ClassesWithinClassesAreRefused) {
  for (const char* regex : {"[a[bc]]+", "[\\p{L}&&[^a]]", "x|[^(\\s|[.,])]"}) {
    const Json json = split_by({{"Regex", regex}}, "Isolated");
    const Status status = huggingface::Splitter::parse(&json).status();
    EXPECT_EQ(status.code(), Code::kUnsupported) << regex;
  }
  const Json escaped = split_by({{"Regex", R"([\[\]a]|[[:digit:]]|\[)"}}, "Isolated");
  EXPECT_THAT(split(escaped, "x[1"), ElementsAre("x", "[", "1"));
}

// What tokenizers, which has Oniguruma's, makes of them.
TEST(Splits, WordsAndScriptsAreAsOnigurumaHasThem) {
  const auto pieces = [](const char* regex, const char* text) {
    return split(split_by({{"Regex", regex}}, "Isolated"), text);
  };
  EXPECT_THAT(pieces(R"(\w+)", "\u0939\u093F\u0928\u094D\u0926\u0940 a\u203Fb \u00BD"),
              ElementsAre("\u0939\u093F\u0928\u094D\u0926\u0940", " ", "a\u203Fb", " ", "\u00BD"));
  EXPECT_THAT(pieces(R"(\w+)", "a\u200Db \U0001F170n x\u2083"),
              ElementsAre("a", "\u200D", "b", " ", "\U0001F170n", " ", "x", "\u2083"));
  EXPECT_THAT(pieces(R"(\W|\bb)", "a\u00BDb \u2083b"), ElementsAre("a\u00BDb", " ", "\u2083", "b"));
  EXPECT_THAT(pieces(R"([\w']+|\W)", "it's\u00BD"), ElementsAre("it's", "\u00BD"));
  EXPECT_THAT(pieces(R"(\p{Han}+)", "\u4F60\u597D\u3002\u4E16"),
              ElementsAre("\u4F60\u597D", "\u3002", "\u4E16"));
  EXPECT_THAT(pieces(R"([^\P{Han}]+|\p{^Greek})", "\u4F60\u4E16\u03B1"),
              ElementsAre("\u4F60\u4E16", "\u03B1"));
  EXPECT_THAT(pieces(R"(\b\p{L}\p{M}*\b)", "a \u0939\u093F \u0939\u093F\u0928"),
              ElementsAre("a", " ", "\u0939\u093F", " \u0939\u093F\u0928"));
}

TEST(Splits, PatternsThatMatchNothingAreRefused) {
  for (const char* regex : {"(?=[A-Z])", "a*", "\\b", "[\\W_]", "[\\B]"}) {
    const Json json = split_by({{"Regex", regex}}, "Isolated");
    const Status status = huggingface::Splitter::parse(&json).status();
    EXPECT_EQ(status.code(), Code::kUnsupported) << regex;
  }
}

// Behind ByteLevel bytes are characters, of which some are numbers: \u00F2 is \xC3\xB2, and \xB2 a
// square.
TEST(Splits, StepsBehindByteLevelSeeItsAlphabet) {
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const Json digits = {{"type", "Digits"}, {"individual_digits", false}};
  const Json steps = {{"type", "Sequence"}, {"pretokenizers", {byte_level, digits}}};
  EXPECT_THAT(split(steps, "a 12"), ElementsAre("a", " ", "12"));
  EXPECT_THAT(split(steps, "\u00F2"), ElementsAre("\xC3", "\xB2"));
}

// The published splits of a family, which stand before ByteLevel there.
TEST(Splits, PublishedSplitsBehindByteLevelSeeItsAlphabet) {
  const Json split_words = split_by(
      {{"Regex",
        R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}},
      "Isolated");
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto steps = [](const Json& first, const Json& second) -> Json {
    return {{"type", "Sequence"}, {"pretokenizers", {first, second}}};
  };
  EXPECT_THAT(split(steps(split_words, byte_level), "\u00E9"), ElementsAre("\u00E9"));
  EXPECT_THAT(split(steps(byte_level, split_words), "\u00E9"), ElementsAre("\xC3", "\xA9"));
}

TEST(Models, BpeMergesByRank) {
  const auto tokenizer = make({{"model", testing::bpe({"a", "b", "c"}, {"b c", "a b", "a bc"})}});
  EXPECT_THAT(tokens_of(*tokenizer, "abc"), ElementsAre("abc"));
  EXPECT_THAT(tokens_of(*tokenizer, "aba"), ElementsAre("ab", "a"));
  EXPECT_THAT(tokens_of(*tokenizer, "axxb"), ElementsAre("a", "<unk>", "<unk>", "b"));
}

TEST(Models, BpeFusesUnknownCharactersWhereAsked) {
  Json model = testing::bpe({"a"}, {});
  model["fuse_unk"] = true;
  EXPECT_THAT(tokens_of(*make({{"model", model}}), "axya"), ElementsAre("a", "<unk>", "a"));
}

TEST(Models, BpeFallsBackToBytes) {
  std::vector<std::string> characters{"a"};
  for (int byte = 0; byte < 256; ++byte) {
    const char* digits = "0123456789ABCDEF";
    characters.push_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">");
  }
  Json model = testing::bpe(characters, {});
  model["byte_fallback"] = true;
  const auto tokenizer = make({{"model", model}, {"decoder", {{"type", "ByteFallback"}}}});
  EXPECT_THAT(tokens_of(*tokenizer, "a\u00E9"), ElementsAre("a", "<0xC3>", "<0xA9>"));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\u00E9")), "a\u00E9");
}

TEST(Models, ByteLevelBpe) {
  Json model = testing::bpe({"a", "b", "\u0120", "\u00C3", "\u00A9"}, {"a b", "\u0120 a"});
  model["unk_token"] = nullptr;
  const auto tokenizer =
      make({{"model", model},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
            {"decoder", {{"type", "ByteLevel"}}}});
  EXPECT_THAT(tokens_of(*tokenizer, "ab a\u00E9"),
              ElementsAre("ab", "\u0120a", "\u00C3", "\u00A9"));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab a\u00E9")), "ab a\u00E9");
}

TEST(Models, UnigramTakesTheMostProbableCut) {
  const Json vocab = {{"<unk>", 0.0}, {"a", -1.0}, {"b", -1.0}, {"ab", -1.5}, {"abb", -9.0}};
  Json pairs = Json::array();
  for (const char* text : {"<unk>", "a", "b", "ab", "abb"}) pairs.push_back({text, vocab[text]});
  const Json model = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pairs}};
  const auto tokenizer = make({{"model", model}});
  EXPECT_THAT(tokens_of(*tokenizer, "abb"), ElementsAre("ab", "b"));
  EXPECT_THAT(tokens_of(*tokenizer, "axyb"), ElementsAre("a", "<unk>", "b"));
}

Json unigram(const std::vector<std::pair<std::string, double>>& pieces) {
  Json pairs = Json::array({Json::array({"<unk>", 0.0})});
  for (const auto& [text, score] : pieces) pairs.push_back(Json::array({text, score}));
  return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", pairs}};
}

TEST(Models, UnigramTakesNoTokenOfAbsurdLength) {
  const std::string longest(1024, 'a');
  const auto tokenizer =
      make({{"model", unigram({{"a", -1.0}, {longest, -1.0}, {longest + longest, -1.0}})}});
  EXPECT_THAT(tokens_of(*tokenizer, longest + longest), ElementsAre(longest, longest));
}

// U+2596 is made of bytes that U+2581 has too.
TEST(Models, UnigramFindsMarksBehindSimilarCharacters) {
  const auto tokenizer =
      make({{"model", unigram({{"\u2581", -1.0}, {"\u2596", -1.0}, {"\u2596\u2581", -1.0}})}});
  EXPECT_THAT(tokens_of(*tokenizer, "\u2596\u2581"), ElementsAre("\u2596\u2581"));
}

TEST(Models, WordPieceTakesTheLongestPiece) {
  const Json json = {{"model", testing::words({"un", "##aff", "##able", "unaff"})},
                     {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                     {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}}}};
  const auto tokenizer = make(json);
  EXPECT_THAT(tokens_of(*tokenizer, "unaffable un"), ElementsAre("unaff", "##able", "un"));
  EXPECT_THAT(tokens_of(*tokenizer, "unx un"), ElementsAre("[UNK]", "un"));
  EXPECT_THAT(tokens_of(*tokenizer, "un" + std::string(200, 'x')), ElementsAre("[UNK]"));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("unaffable un")), "unaffable un");
}

}  // namespace
}  // namespace bp::text

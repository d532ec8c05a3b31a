#include "core/text/pre_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/nearest.hpp"
#include "core/text/piece_finders.hpp"

namespace bp::text {
namespace {

constexpr PieceFinder kGpt2[] = {find_gpt2};
constexpr PieceFinder kDigitsThenGpt2[] = {find_number_char, find_gpt2};
constexpr PieceFinder kLlama3[] = {find_llama3};
constexpr PieceFinder kMinicpm5[] = {find_three_numbers, find_llama3};
constexpr PieceFinder kJais2[] = {find_long_spaces, find_jais2};
constexpr PieceFinder kQwen2[] = {find_qwen2};
constexpr PieceFinder kQwen35[] = {find_qwen35};
constexpr PieceFinder kUfakzeka[] = {find_ufakzeka};
constexpr PieceFinder kSeedCoder[] = {find_seed_coder};
constexpr PieceFinder kLaguna[] = {find_line, find_qwen2};
constexpr PieceFinder kExaoneMoe[] = {find_exaone_moe};
constexpr PieceFinder kGpt4o[] = {find_gpt4o};
constexpr PieceFinder kTinyAya[] = {find_bounded_digits, find_head_of_bounded, find_three_bounded,
                                    find_gpt4o};
constexpr PieceFinder kTekken[] = {find_tekken};
constexpr PieceFinder kYoutu[] = {find_east_asian, find_youtu};
constexpr PieceFinder kKimi[] = {find_kimi};
constexpr PieceFinder kDeepseekLlm[] = {find_newline_char,        find_spaced_cased_letters,
                                        find_spaced_wide_symbols, find_last_spaces,
                                        find_cjk_and_hangul,      find_number_char};
constexpr PieceFinder kDeepseekCoder[] = {find_newline_char, find_spaced_letters,
                                          find_spaced_punctuation, find_cjk_and_hangul,
                                          find_number_char};
constexpr PieceFinder kDeepseek3[] = {find_three_numbers, find_cjk_and_kana, find_deepseek3};
constexpr PieceFinder kSpark[] = {find_three_numbers, find_cjk_and_kana, find_spark,
                                  find_number_char};
constexpr PieceFinder kAfmoe[] = {find_numbers, find_head_of_digits, find_three_digits,
                                  find_unspaced_scripts, find_deepseek3};
constexpr PieceFinder kSuperBpe[] = {find_numbers, find_head_of_digits, find_three_digits};
constexpr PieceFinder kFalcon[] = {find_punctuation, find_gpt2, find_alphabet_numbers,
                                   find_three_ascii_digits};
constexpr PieceFinder kBloom[] = {find_bloom};
constexpr PieceFinder kViking[] = {find_bloom, find_number_char};
constexpr PieceFinder kChameleon[] = {find_sentinel,    find_image_token,      find_indent,
                                      find_number_char, find_punctuation_char, find_gpt2};

struct NamedPreTokenizer {
  std::string_view name;
  std::span<const PieceFinder> passes;
  bool prefers_whole_pieces = false;
};

// Names that share a row's passes were published with equal patterns; the first stands for them in
// files that are written.
constexpr NamedPreTokenizer kPreTokenizers[] = {
    {"gpt-2", kGpt2},
    {"default", kGpt2},
    {"phi-2", kGpt2},
    {"roberta-bpe", kGpt2},
    {"jina-es", kGpt2},
    {"jina-de", kGpt2},
    {"jina-v1-en", kGpt2},
    {"jina-v2-es", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v2-code", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"modern-bert", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"exaone4", kGpt2},
    {"llama-bpe", kLlama3, true},
    {"llama3", kLlama3, true},
    {"llama-v3", kLlama3, true},
    {"falcon3", kLlama3, true},
    {"falcon-h1", kLlama3, true},
    {"pixtral", kLlama3, true},
    {"midm-2.0", kLlama3, true},
    {"lfm2", kLlama3, true},
    {"jina-v5-nano", kLlama3, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"glm4", kLlama3, true},
    {"glm5", kLlama3, true},
    {"minicpm5", kMinicpm5, true},
    {"jais-2", kJais2},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
    {"stablelm2", kQwen2},
    {"megrez", kQwen2},
    {"hunyuan", kQwen2},
    {"solar-open", kQwen2},
    {"grok-2", kQwen2},
    {"bailingmoe", kQwen2},
    {"bailingmoe2", kQwen2},
    {"llada-moe", kQwen2},
    {"qwen35", kQwen35},
    {"ufakzeka", kUfakzeka},
    {"seed-coder", kSeedCoder},
    {"laguna", kLaguna},
    {"exaone-moe", kExaoneMoe},
    {"smollm", kDigitsThenGpt2},
    {"starcoder", kDigitsThenGpt2},
    {"refact", kDigitsThenGpt2},
    {"command-r", kDigitsThenGpt2},
    {"codeshell", kDigitsThenGpt2},
    {"exaone", kDigitsThenGpt2},
    {"minerva-7b", kDigitsThenGpt2},
    {"mellum2", kDigitsThenGpt2},
    {"gpt-4o", kGpt4o},
    {"llama4", kGpt4o},
    {"kanana2", kGpt4o},
    {"talkie", kGpt4o},
    {"minimax-m2", kGpt4o},
    {"granite-embed-multi-97m", kGpt4o, true},
    {"tiny_aya", kTinyAya},
    {"cohere2moe", kTinyAya},
    {"tekken", kTekken, true},
    {"youtu", kYoutu, true},
    {"kimi-k2", kKimi},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-coder", kDeepseekCoder},
    {"deepseek-v3", kDeepseek3},
    {"hunyuan-dense", kDeepseek3},
    {"hy_v4", kDeepseek3},
    {"joyai-llm", kDeepseek3},
    {"spark2_5", kSpark},
    {"afmoe", kAfmoe},
    {"superbpe", kSuperBpe},
    {"falcon", kFalcon},
    {"bloom", kBloom},
    {"poro-chat", kBloom},
    {"gpt3-finnish", kBloom},
    {"viking", kViking},
    {"chameleon", kChameleon},
};

// Parts of the above that tokenizer.json files name one by one.
constexpr PieceFinder kDeepseek3Words[] = {find_deepseek3};
constexpr PieceFinder kCjkAndKana[] = {find_cjk_and_kana};
constexpr PieceFinder kCjkAndHangul[] = {find_cjk_and_hangul};
constexpr PieceFinder kThreeNumbers[] = {find_three_numbers};
constexpr PieceFinder kNumbers[] = {find_numbers};
constexpr PieceFinder kNumberChar[] = {find_number_char};
constexpr PieceFinder kNewlineChar[] = {find_newline_char};
constexpr PieceFinder kLine[] = {find_line};
constexpr PieceFinder kSpaces[] = {find_spaces};
constexpr PieceFinder kPunctuationChar[] = {find_punctuation_char};
constexpr PieceFinder kThreeAsciiDigits[] = {find_three_ascii_digits};
constexpr PieceFinder kThrees[] = {find_head_of_digits, find_three_digits};
constexpr PieceFinder kBoundedThrees[] = {find_bounded_digits, find_head_of_bounded,
                                          find_three_bounded};

struct KnownRegex {
  std::string_view regex;
  std::span<const PieceFinder> passes;
};

// As tokenizer.json files write them.
constexpr KnownRegex kRegexes[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", kGpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kLlama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kQwen2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kQwen35},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kGpt4o},
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kTekken},
    {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     kKimi},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}"
     "]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     kDeepseek3Words},
    {" ?[^(\\s|[.,!?…。，、।۔،])]+", kBloom},
    {"[一-龥぀-ゟ゠-ヿ]+", kCjkAndKana},
    {"[一-龥ࠀ-一가-퟿]+", kCjkAndHangul},
    {R"(\p{N}{1,3})", kThreeNumbers},
    {R"(\p{N}+)", kNumbers},
    {R"(\p{N})", kNumberChar},
    {R"((?=(\d{3})+(?!\d)))", kThrees},
    {R"(\d{1,3}(?=(?:\d{3})*\b))", kBoundedThrees},
    {R"([\r\n])", kNewlineChar},
    {R"([^\n]+|[\n]+)", kLine},
    {R"(\s+)", kSpaces},
    {R"([\p{P}$+<=>^`|~])", kPunctuationChar},
    {"[0-9][0-9][0-9]", kThreeAsciiDigits},
};

}  // namespace

std::span<const PieceFinder> piece_finders_of(std::string_view regex) {
  for (const KnownRegex& known : kRegexes) {
    if (known.regex == regex) return known.passes;
  }
  return {};
}

std::string_view pre_tokenizer_name(std::span<const PieceFinder> passes,
                                    bool prefers_whole_pieces) {
  for (const NamedPreTokenizer& known : kPreTokenizers) {
    if (known.prefers_whole_pieces == prefers_whole_pieces &&
        std::ranges::equal(known.passes, passes)) {
      return known.name;
    }
  }
  return {};
}

Result<PreTokenizer> PreTokenizer::create(std::string_view name) {
  if (name.empty()) name = "default";
  for (const NamedPreTokenizer& known : kPreTokenizers) {
    if (known.name != name) continue;
    return of({known.passes.begin(), known.passes.end()}, known.prefers_whole_pieces);
  }
  std::vector<std::string> names;
  for (const NamedPreTokenizer& known : kPreTokenizers) names.emplace_back(known.name);
  return unsupported(
      fmt::format("tokenizer.ggml.pre: '{}' is unknown{}", name, base::nearest_hint(name, names)));
}

}  // namespace bp::text

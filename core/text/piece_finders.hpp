#pragma once
// Matchers of published split patterns, each beside the pattern it stands for. Linear in any text;
// bytes that are not UTF-8 are symbols.

#include "core/text/pre_tokenizer.hpp"

namespace bp::text {

// CONTRACTION: (?i:'s|'t|'re|'ve|'m|'ll|'d)
// SPACES: \s*[\r\n]+|\s+(?!\S)|\s+

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
PieceMatch find_gpt2(const CharClasses& classes, const char* from, const char* end);

// CONTRACTION|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|SPACES
PieceMatch find_llama3(const CharClasses& classes, const char* from, const char* end);
// The same with \p{N}
PieceMatch find_qwen2(const CharClasses& classes, const char* from, const char* end);
// CONTRACTION|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|SPACES
PieceMatch find_qwen35(const CharClasses& classes, const char* from, const char* end);
// qwen2 without contractions
PieceMatch find_ufakzeka(const CharClasses& classes, const char* from, const char* end);
// qwen2 with ` ?[^\s\p{L}\p{N}]+`
PieceMatch find_seed_coder(const CharClasses& classes, const char* from, const char* end);
// What jais2 keeps together of white space that is long: \s*[\r\n]+|\s+(?!\S)|\s+
PieceMatch find_long_spaces(const CharClasses& classes, const char* from, const char* end);
// Behind find_long_spaces: llama3, where white space without a newline is cut by
// \s{512}(?!\S)|\s{256}(?!\S)|...
// |\s{4}(?!\S)|\s{1,2}(?!\S)|\s
PieceMatch find_jais2(const CharClasses& classes, const char* from, const char* end);
// CONTRACTION|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}
// | ?[^\s\p{L}\p{N}]+[\r\n/]?|SPACES
PieceMatch find_exaone_moe(const CharClasses& classes, const char* from, const char* end);

// UPPER: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], LOWER: [\p{Ll}\p{Lm}\p{Lo}\p{M}]
// [^\r\n\p{L}\p{N}]?UPPER*LOWER+CONTRACTION?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*CONTRACTION?
// |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|SPACES
PieceMatch find_gpt4o(const CharClasses& classes, const char* from, const char* end);
// The same with \p{N}, and without contractions
PieceMatch find_tekken(const CharClasses& classes, const char* from, const char* end);
// gpt4o with \p{N}
PieceMatch find_youtu(const CharClasses& classes, const char* from, const char* end);
// \p{Han}+|gpt4o with UPPER and LOWER without \p{Han}, and symbols followed by [\r\n]*
PieceMatch find_kimi(const CharClasses& classes, const char* from, const char* end);

// [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|SPACES
PieceMatch find_deepseek3(const CharClasses& classes, const char* from, const char* end);
// The same with ` ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+` at its end
PieceMatch find_spark(const CharClasses& classes, const char* from, const char* end);

//  ?[^(\s|.,!?…。，、।۔،)]+
PieceMatch find_bloom(const CharClasses& classes, const char* from, const char* end);

// \p{N}
PieceMatch find_number_char(const CharClasses& classes, const char* from, const char* end);
// \p{N}{1,3}
PieceMatch find_three_numbers(const CharClasses& classes, const char* from, const char* end);
// \p{N}+
PieceMatch find_numbers(const CharClasses& classes, const char* from, const char* end);
// [0-9][0-9][0-9]
PieceMatch find_three_ascii_digits(const CharClasses& classes, const char* from, const char* end);
// \p{N}+ in the alphabet of byte-level BPE, where some bytes are written as superscripts or
// fractions
PieceMatch find_alphabet_numbers(const CharClasses& classes, const char* from, const char* end);

// (?=(\d{3})+(?!\d)) in \p{N}+, which cuts numbers into threes from their ends: first each run of
// digits before its first whole three, then at the others.
PieceMatch find_head_of_digits(const CharClasses& classes, const char* from, const char* end);
PieceMatch find_three_digits(const CharClasses& classes, const char* from, const char* end);
// \d{1,3}(?=(?:\d{3})*\b), likewise: the runs of digits that no other character of a word follows,
// then each before its first whole three, then at the others.
PieceMatch find_bounded_digits(const CharClasses& classes, const char* from, const char* end);
PieceMatch find_head_of_bounded(const CharClasses& classes, const char* from, const char* end);
PieceMatch find_three_bounded(const CharClasses& classes, const char* from, const char* end);

// [\r\n]
PieceMatch find_newline_char(const CharClasses& classes, const char* from, const char* end);
// \s+
PieceMatch find_spaces(const CharClasses&, const char* p, const char* end);
// [^\n]+|[\n]+
PieceMatch find_line(const CharClasses& classes, const char* from, const char* end);
// \s+$
PieceMatch find_last_spaces(const CharClasses& classes, const char* from, const char* end);
// \s?\p{L}+
PieceMatch find_spaced_letters(const CharClasses& classes, const char* from, const char* end);
// \s?\p{P}+
PieceMatch find_spaced_punctuation(const CharClasses& classes, const char* from, const char* end);
// [\p{P}$+<=>^`|~]+
PieceMatch find_punctuation(const CharClasses& classes, const char* from, const char* end);
// [\p{P}$+<=>^`|~]
PieceMatch find_punctuation_char(const CharClasses& classes, const char* from, const char* end);

// DeepSeek LLM's list of cased letters, and of punctuation in ASCII and full width: \s?[...]+
PieceMatch find_spaced_cased_letters(const CharClasses& classes, const char* from, const char* end);
PieceMatch find_spaced_wide_symbols(const CharClasses& classes, const char* from, const char* end);
// [一-龥ࠀ-一가-퟿]+
PieceMatch find_cjk_and_hangul(const CharClasses& classes, const char* from, const char* end);
// [一-龥぀-ゟ゠-ヿ]+
PieceMatch find_cjk_and_kana(const CharClasses& classes, const char* from, const char* end);
// AFMoE's list of scripts without spaces: [...]+
PieceMatch find_unspaced_scripts(const CharClasses& classes, const char* from, const char* end);
// [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
PieceMatch find_east_asian(const CharClasses& classes, const char* from, const char* end);

// Chameleon's <sentinel:[0-9]+>, IMGIMG[A-I]{1,4}Z and [\t\n]|    |  (four spaces, or two)
PieceMatch find_sentinel(const CharClasses& classes, const char* from, const char* end);
PieceMatch find_image_token(const CharClasses& classes, const char* from, const char* end);
PieceMatch find_indent(const CharClasses& classes, const char* from, const char* end);

}  // namespace bp::text

#pragma once
// Python's view of text, over valid UTF-8: code points, whitespace, case.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/utf8.hpp"

namespace bp::text::jinja {

bool is_valid_utf8(std::string_view text);
bool is_ascii(std::string_view text);
std::u32string decode(std::string_view utf8);
std::string encode(std::u32string_view text);
// Bytes of the character that starts with `lead`.
size_t utf8_length(unsigned char lead);

size_t count_code_points(std::string_view utf8);
// Byte offset of code point `index`, which is at most the count.
size_t byte_offset(std::string_view utf8, size_t index);

bool is_space(char32_t c);
bool is_printable(char32_t c);
bool is_word(char32_t c);  // \w
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_decimal(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
char32_t to_title(char32_t c);

enum class Side { kLeft, kRight, kBoth };
std::string_view strip(std::string_view text, Side side = Side::kBoth);
std::string_view strip(std::string_view text, std::u32string_view characters, Side side);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string fold_case(std::string_view text);
std::string capitalize(std::string_view text);

// Byte offset of the first (last) occurrence, or npos. Linear time.
size_t find_first(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last(std::string_view text, std::string_view part);
// At most `limit` occurrences are replaced; an empty `from` matches between characters.
std::string replace(std::string_view text, std::string_view from, std::string_view to,
                    size_t limit);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::string escape_html(std::string_view text);
// Numbers of characters, and the five names that escaping needs.
std::string unescape_html(std::string_view text);

}  // namespace bp::text::jinja

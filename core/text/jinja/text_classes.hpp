#pragma once
// str.isalpha and its kin, str.title and str.swapcase.

#include <string>
#include <string_view>

namespace bp::text::jinja {

bool is_alnum_text(std::string_view text);
bool is_alpha_text(std::string_view text);
bool is_decimal_text(std::string_view text);
bool is_digit_text(std::string_view text);
bool is_identifier_text(std::string_view text);
bool is_lower_text(std::string_view text);
bool is_numeric_text(std::string_view text);
bool is_printable_text(std::string_view text);
bool is_space_text(std::string_view text);
bool is_title_text(std::string_view text);
bool is_upper_text(std::string_view text);

std::string title_case(std::string_view text);
std::string swap_case(std::string_view text);

}  // namespace bp::text::jinja

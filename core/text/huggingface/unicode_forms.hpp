#pragma once
// Changes of a text, character by character, that normalizers are made of. Bytes that are not
// UTF-8 stay as they are.

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace bp::text::huggingface {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

inline constexpr std::array<std::pair<const char*, UnicodeForm>, 4> kUnicodeForms = {{
    {"NFC", UnicodeForm::kNfc},
    {"NFD", UnicodeForm::kNfd},
    {"NFKC", UnicodeForm::kNfkc},
    {"NFKD", UnicodeForm::kNfkd},
}};

[[nodiscard]] std::string to_form(std::string_view text, UnicodeForm form);
// Each character alone, without regard to its neighbours.
[[nodiscard]] std::string lower_case(std::string_view text);
// Without \p{M}; without \p{Mn}.
[[nodiscard]] std::string without_marks(std::string_view text);
[[nodiscard]] std::string without_nonspacing_marks(std::string_view text);
// Without white space at the ends.
[[nodiscard]] std::string stripped(std::string_view text, bool left, bool right);
// Without spaces at the ends, and with one in place of several.
[[nodiscard]] std::string spaces_collapsed(std::string_view text);
// BERT: no control characters, all white space a space; and spaces around Chinese characters.
[[nodiscard]] std::string clean_text(std::string_view text);
[[nodiscard]] std::string space_chinese(std::string_view text);
// What SentencePiece's "nmt" rules drop, or turn into spaces.
[[nodiscard]] std::string nmt_cleaned(std::string_view text);

}  // namespace bp::text::huggingface

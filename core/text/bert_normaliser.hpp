#pragma once
// The words of a text as uncased BERT models see them: lower case, no accents, no control
// characters, each punctuation mark and Chinese character a word of its own.

#include <string>
#include <string_view>

#include "core/text/char_classes.hpp"

namespace bp::text {

class BertNormaliser {
 public:
  // In the blocks that BERT's own tokenizer calls Chinese.
  [[nodiscard]] static bool is_chinese(char32_t c);

  // Calls emit(std::string_view) for every word.
  template <class Emit>
  static void for_each_word(std::string_view text, const Emit& emit) {
    const CharClasses& classes = CharClasses::get();
    std::u32string characters;
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) emit(std::string_view(word));
      word.clear();
    };
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const ClassifiedChar c = classes.at(p, end);
      p += c.size;
      characters.clear();
      decompose(c.value, characters);
      for (const char32_t part : characters) {
        const Role role = role_of(part, classes.of(part));
        if (role == Role::kDropped) continue;
        if (role != Role::kInWord) end_word();
        if (role == Role::kSpace) continue;
        append_utf8(lower(part), word);
        if (role == Role::kAlone) end_word();
      }
    }
    end_word();
  }

 private:
  enum class Role { kInWord, kAlone, kSpace, kDropped };

  static Role role_of(char32_t c, char_class::Mask classes);
  static char32_t lower(char32_t c);
  // Appends the full canonical decomposition of c.
  static void decompose(char32_t c, std::u32string& out);
};

}  // namespace bp::text

#pragma once
// The words of a text as BERT models see them: no control characters, each punctuation mark and
// Chinese character a word of its own; for uncased models in lower case and without accents.

#include <string>
#include <string_view>

#include "core/text/char_classes.hpp"

namespace bp::text {

class BertNormaliser {
 public:
  // In the blocks that BERT's own tokenizer calls Chinese.
  [[nodiscard]] static bool is_chinese(char32_t c);

  struct Options {
    bool lowers = true;
    bool strips_accents = true;
  };

  // Calls emit(std::string_view) for every word.
  template <class Emit>
  static void for_each_word(std::string_view text, Options options, const Emit& emit) {
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
      if (options.strips_accents) {
        decompose(c.value, characters);
      } else {
        characters.push_back(c.value);
      }
      for (const char32_t part : characters) {
        const Role role = role_of(part, classes.of(part), options.strips_accents);
        if (role == Role::kDropped) continue;
        if (role != Role::kInWord) end_word();
        if (role == Role::kSpace) continue;
        append_utf8(options.lowers ? lower(part) : part, word);
        if (options.lowers && part == kDottedI) append_utf8(kDotAbove, word);
        if (role == Role::kAlone) end_word();
      }
    }
    end_word();
  }

 private:
  enum class Role { kInWord, kAlone, kSpace, kDropped };

  static Role role_of(char32_t c, char_class::Mask classes, bool strips_accents);
  // The one character that has two in lower case: i with a dot above, which the second of them is.
  static constexpr char32_t kDottedI = 0x130, kDotAbove = 0x307;
  static char32_t lower(char32_t c);
  // Appends the full canonical decomposition of c.
  static void decompose(char32_t c, std::u32string& out);
};

}  // namespace bp::text

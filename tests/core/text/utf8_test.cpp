#include "core/text/utf8.hpp"

#include <gtest/gtest.h>

namespace bp::text {
namespace {

Utf8Char decode(std::string_view text) {
  return decode_utf8(text.data(), text.data() + text.size());
}

TEST(Utf8, DecodesWhatItAppends) {
  for (const char32_t c : {U'a', U'\u007F', U'\u0080', U'\u07FF', U'\u0800', U'\uD7FF', U'\uE000',
                           U'\uFFFF', U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(c, text);
    EXPECT_EQ(decode(text).value, c);
    EXPECT_EQ(decode(text).size, text.size());
    EXPECT_EQ(decode(text).form, Utf8Form::kValid);
    for (size_t n = 1; n < text.size(); ++n) {
      EXPECT_EQ(decode(text.substr(0, n)).form, Utf8Form::kIncomplete);
      EXPECT_EQ(decode(text.substr(0, n)).size, n);
    }
  }
}

TEST(Utf8, RefusesIllFormedSequences) {
  struct Case {
    std::string_view text;
    uint32_t size;
  };
  for (const auto& [text, size] :
       {Case{"\x80", 1}, Case{"\xC0\x80", 1}, Case{"\xC1\xBF", 1}, Case{"\xE0\x9F\xBF", 1},
        Case{"\xED\xA0\x80", 1}, Case{"\xF0\x8F\xBF\xBF", 1}, Case{"\xF4\x90\x80\x80", 1},
        Case{"\xF5\x80\x80\x80", 1}, Case{"\xE2\x82x", 2}, Case{"\xF0\x9F\x98x", 3},
        Case{"\xFF", 1}}) {
    EXPECT_EQ(decode(text).form, Utf8Form::kInvalid) << text;
    EXPECT_EQ(decode(text).size, size) << text;
    EXPECT_EQ(decode(text).value, kReplacement) << text;
  }
}

}  // namespace
}  // namespace bp::text

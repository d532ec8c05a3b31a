#pragma once
// Finds the first of several texts in text that comes in pieces.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bp::text::chat {

struct Mark {
  enum class Role : uint8_t { kReasoningBegin, kReasoningEnd, kSection, kCall, kCallEnd, kDropped };
  std::string_view text;
  Role role;
};
using Marks = std::vector<Mark>;

// Of what stands between two marks to say whom a message or a call is for; longer text is none.
inline constexpr size_t kMaxHeaderBytes = 512;

struct FoundMark {
  size_t at;         // where it begins or may begin; the text's size where there is none
  const Mark* mark;  // null: more text decides
};

// The longest mark that begins at `at`, which is below the size. at_end: nothing more comes.
FoundMark mark_at(std::string_view text, size_t at, const Marks& marks, bool at_end);
// The first mark in the text.
FoundMark find_mark(std::string_view text, const Marks& marks, bool at_end);

}  // namespace bp::text::chat

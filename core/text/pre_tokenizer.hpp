#pragma once
// Cuts text into the pieces within which byte-level BPE merges. Each published split pattern is a
// hand-written matcher over code points: linear in any text, and bytes that are not UTF-8 pass.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/status.hpp"
#include "core/text/char_classes.hpp"

namespace bp::text {

struct PieceMatch {
  const char* begin;
  const char* end;  // begin == end: no match before the end of the text
};

// The first match at or after `from`. Precondition: from < end.
using PieceFinder = PieceMatch (*)(const CharClasses& classes, const char* from, const char* end);

// The matchers that cut a text, one pass after another, where the regular expression does; none
// where none were written.
[[nodiscard]] std::span<const PieceFinder> piece_finders_of(std::string_view regex);

// The name that GGUF files have for a pre-tokenizer of these passes; empty where they have none.
[[nodiscard]] std::string_view pre_tokenizer_name(std::span<const PieceFinder> passes,
                                                  bool prefers_whole_pieces);

class PreTokenizer {
 public:
  // The pre-tokenizer of tokenizer.ggml.pre; an empty name means "default".
  static Result<PreTokenizer> create(std::string_view name);
  static PreTokenizer of(std::vector<PieceFinder> passes, bool prefers_whole_pieces) {
    return {std::move(passes), prefers_whole_pieces};
  }

  [[nodiscard]] std::span<const PieceFinder> passes() const { return passes_; }
  // Whether a piece that is a token is that token, whatever its merges say.
  [[nodiscard]] bool prefers_whole_pieces() const { return prefers_whole_pieces_; }

  template <class Emit>
  void for_each_piece(std::string_view text, Emit&& emit) const {
    split(text.data(), text.data() + text.size(), std::span(passes_), emit);
  }

 private:
  PreTokenizer(std::vector<PieceFinder> passes, bool prefers_whole_pieces)
      : classes_(&CharClasses::get()),
        passes_(std::move(passes)),
        prefers_whole_pieces_(prefers_whole_pieces) {}

  // Each pass cuts what the passes before it left: its matches and the text between them.
  template <class Emit>
  void split(const char* p, const char* end, std::span<const PieceFinder> passes,
             Emit& emit) const {
    if (passes.empty()) return emit(std::string_view(p, static_cast<size_t>(end - p)));
    const auto rest = passes.subspan(1);
    while (p < end) {
      const PieceMatch match = passes[0](*classes_, p, end);
      if (p < match.begin) split(p, match.begin, rest, emit);
      if (match.begin < match.end) split(match.begin, match.end, rest, emit);
      p = match.end;
    }
  }

  const CharClasses* classes_;
  std::vector<PieceFinder> passes_;
  bool prefers_whole_pieces_;
};

}  // namespace bp::text

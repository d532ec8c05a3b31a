#pragma once
// The pre_tokenizer of tokenizer.json: cuts a text into the pieces that the model encodes alone.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/huggingface/pattern.hpp"
#include "core/text/pre_tokenizer.hpp"

namespace bp::text::huggingface {

class Splitter {
 public:
  // Null: no splits.
  static Result<Splitter> parse(const nlohmann::json* pre_tokenizer);

  // Whether pieces are bytes that the vocabulary writes in the alphabet of byte-level BPE.
  [[nodiscard]] bool is_byte_level() const { return is_byte_level_; }

  // Whether every text gets a space before it, those behind special tokens, too.
  [[nodiscard]] bool prepends_always() const;

  // The matchers that do all of it; none where there is more to do.
  [[nodiscard]] std::span<const PieceFinder> plain_finders() const { return plain_.passes(); }

  // Calls emit(std::string_view) for every piece. at_start: the text is not behind another.
  template <class Emit>
  void for_each_piece(std::string_view text, bool at_start, const Emit& emit) const {
    if (is_plain_) {
      plain_.for_each_piece(text, emit);
      return;
    }
    for (const std::string& piece : split(text, at_start)) emit(std::string_view(piece));
  }

 private:
  enum class Kind { kSplit, kMetaspace, kPrefixSpace, kToAlphabet };
  enum class Behavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };
  enum class Prepend { kAlways, kFirst, kNever };

  struct Step {
    Kind kind = Kind::kSplit;
    Pattern pattern;
    Behavior behavior = Behavior::kIsolated;
    bool inverted = false;    // what lies between matches counts as one
    std::string replacement;  // of spaces
    Prepend prepend = Prepend::kNever;
    bool splits = false;  // a piece begins at every replacement
  };
  struct Span {
    size_t begin;
    size_t end;
    bool is_match;
  };

  Status add(const nlohmann::json& step);
  void note(const nlohmann::json& step, const std::string& type);
  Status add_split(Result<Pattern> pattern, Behavior behavior, bool inverted = false);
  Status add_metaspace(const nlohmann::json& step);
  static Result<Behavior> behavior_of(const nlohmann::json& step, const char* fallback);
  void find_plain();

  [[nodiscard]] std::vector<std::string> split(std::string_view text, bool at_start) const;
  static void apply_split(const Step& step, std::string_view piece, std::vector<std::string>& out);
  static void apply_metaspace(const Step& step, std::string piece, bool at_start,
                              std::vector<std::string>& out);
  static std::vector<Span> spans_of(const Step& step, std::string_view piece);

  std::vector<Step> steps_;
  std::vector<std::string> written_;  // as published_splits.hpp has them; "" for any other step
  bool is_byte_level_ = false;
  bool ends_in_alphabet_ = false;  // steps behind ByteLevel see bytes as their characters
  bool is_plain_ = false;          // plain_ does all of it
  PreTokenizer plain_ = PreTokenizer::of({}, false);
};

}  // namespace bp::text::huggingface

#pragma once
// What splits and replacements look for: a text as it is, a regular expression, or single
// characters of a kind.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/text/pre_tokenizer.hpp"
#include "core/text/regex.hpp"

namespace bp::text::huggingface {

class Pattern {
 public:
  // {"String": ...} or {"Regex": ...}; regular expressions that have a matcher of their own use it.
  static Result<Pattern> parse(const nlohmann::json& owner);
  static Pattern of_text(std::string text);
  static Result<Pattern> of_regex(const std::string& regex);
  static Pattern of_finder(PieceFinder finder);

  // The first match at or after `from`; begin == end: none.
  [[nodiscard]] Regex::Match find(std::string_view text, size_t from) const;
  // The text with `content` in place of every match; once it has some max_bytes, of no further one.
  [[nodiscard]] std::string replace(std::string_view text, std::string_view content,
                                    size_t max_bytes) const;
  // The matcher that is all there is to it, or null.
  [[nodiscard]] PieceFinder finder() const { return finder_; }

 private:
  std::string text_;
  std::optional<Regex> regex_;
  PieceFinder finder_ = nullptr;
};

// What a step puts in place of another text, or adds to one: refused where it is long.
Result<std::string> replacement_of(const nlohmann::json& step, const char* name);

}  // namespace bp::text::huggingface

#pragma once
// Regular expressions over UTF-8 with Unicode classes; ^ and $ stand at the ends of lines. Backed by
// PCRE2.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "backplane/status.hpp"

namespace bp::text {

// Immutable. [any-thread]
class Regex {
 public:
  static Result<Regex> compile(const std::string& pattern);
  // A pattern as Oniguruma reads it, for which tokenizer files are written. Refused is what PCRE2
  // would take for something else, and what may match nothing, where texts would be cut, too.
  static Result<Regex> compile_oniguruma(const std::string& pattern);

  struct Match {
    size_t begin;
    size_t end;  // begin == end: none
  };
  // The first match at or after `from` that is not empty. Where the search takes more steps than
  // any sensible pattern needs, there is none.
  [[nodiscard]] Match find(std::string_view text, size_t from) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace bp::text

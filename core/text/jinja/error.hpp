#pragma once
// How errors travel inside the engine. TemplateError never leaves this folder: Template::parse and
// Template::render turn it into a Status.

#include <string>
#include <utility>

namespace bp::text::jinja {

enum class ErrorKind {
  kSyntax,   // the source is not a template
  kRuntime,  // the template cannot be evaluated with these variables
  kRefusal,  // the template called raise_exception
  kLimit,    // a limit of RenderOptions was reached
};

struct TemplateError {
  ErrorKind kind;
  std::string message;
  int line = 0;  // 0 where the evaluator's current line applies
};

[[noreturn]] inline void fail(std::string message) {
  throw TemplateError{ErrorKind::kRuntime, std::move(message)};
}
[[noreturn]] inline void fail_limit(std::string message) {
  throw TemplateError{ErrorKind::kLimit, std::move(message)};
}
[[noreturn]] inline void fail_syntax(std::string message, int line) {
  throw TemplateError{ErrorKind::kSyntax, std::move(message), line};
}

}  // namespace bp::text::jinja

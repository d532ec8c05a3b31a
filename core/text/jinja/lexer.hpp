#pragma once
// Template source to tokens. White space control (trim_blocks, lstrip_blocks, `-`, `+`), comments
// and raw blocks end here: the parser sees text, tags and the tokens inside tags.

#include <string>
#include <string_view>
#include <vector>

namespace bp::text::jinja {

enum class TokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kInteger,  // text as written, without underscores
  kFloat,
  kString,  // unescaped
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

// The last token is kEnd. Raises kSyntax errors.
std::vector<Token> tokenize(std::string_view source);

}  // namespace bp::text::jinja

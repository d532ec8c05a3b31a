#include "core/text/jinja/parser.hpp"

#include "core/text/jinja/error.hpp"

namespace bp::text::jinja {

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (parser_.depth_ >= kMaxNesting) fail_syntax("nesting is too deep", parser_.current().line);
  ++parser_.depth_;
}

TemplateAst Parser::parse() {
  return {parse_block({}, "")};
}

Token& Parser::next() {
  Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}
bool Parser::is_name(std::string_view text) const {
  return current().kind == TokenKind::kName && current().text == text;
}
bool Parser::skip_operator(std::string_view text) {
  if (!is_operator(text)) return false;
  ++at_;
  return true;
}
bool Parser::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  ++at_;
  return true;
}
void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected();
}
void Parser::expect_name(std::string_view text) {
  if (!skip_name(text)) unexpected();
}
void Parser::expect_block_end() {
  if (current().kind != TokenKind::kBlockEnd) unexpected();
  ++at_;
}

Text Parser::expect_identifier() {
  if (current().kind != TokenKind::kName) unexpected();
  return Text(next().text);
}

void Parser::unexpected() const {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kEnd:
      fail_syntax("unexpected end of the template", token.line);
    case TokenKind::kBlockEnd:
      fail_syntax("unexpected end of the statement", token.line);
    case TokenKind::kVariableEnd:
      fail_syntax("unexpected end of the expression", token.line);
    default:
      fail_syntax("unexpected '" + token.text + "'", token.line);
  }
}

}  // namespace bp::text::jinja

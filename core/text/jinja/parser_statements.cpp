#include "core/text/jinja/error.hpp"
#include "core/text/jinja/parser.hpp"

namespace bp::text::jinja {

bool Parser::at_end_tag(std::initializer_list<std::string_view> ends) const {
  return current().kind == TokenKind::kName &&
         std::find(ends.begin(), ends.end(), current().text) != ends.end();
}

// Statements up to one of the end tags, whose name is then the current token; without end tags,
// to the end of the template.
Block Parser::parse_block(std::initializer_list<std::string_view> ends, const char* opened_by) {
  Level level(*this);
  const int first_line = current().line;
  Block block;
  while (current().kind != TokenKind::kEnd) {
    Token& token = next();
    if (token.kind == TokenKind::kData) {
      block.push_back({token.line, Data{std::move(token.text)}});
    } else if (token.kind == TokenKind::kVariableBegin) {
      block.push_back({token.line, Print{parse_tuple(Ternary::kAllowed, false)}});
      if (current().kind != TokenKind::kVariableEnd) unexpected();
      next();
    } else {
      if (at_end_tag(ends)) return block;
      block.push_back(parse_statement());
      expect_block_end();
    }
  }
  if (ends.size() > 0) {
    fail_syntax(std::string("the '") + opened_by + "' block is not closed", first_line);
  }
  return block;
}

// The rest of an opening tag, the body, and the name of the closing tag.
Block Parser::parse_body(std::string_view end, const char* opened_by) {
  skip_operator(":");
  expect_block_end();
  Block body = parse_block({end}, opened_by);
  next();
  return body;
}

Statement Parser::parse_statement() {
  Level level(*this);
  const int line = current().line;
  if (current().kind != TokenKind::kName) unexpected();
  const std::string& tag = next().text;
  if (tag == "if") return {line, parse_if()};
  if (tag == "for") return {line, parse_for()};
  if (tag == "set") return parse_set(line);
  if (tag == "macro") return parse_macro(line);
  if (tag == "call") return parse_call_block(line);
  if (tag == "with") return {line, parse_with()};
  if (tag == "block") return {line, parse_named_block()};
  if (tag == "generation") return {line, Scoped{parse_body("endgeneration", "generation")}};
  if (tag == "filter") {
    std::vector<Link> filters;
    filters.push_back(parse_filter());
    for (Link& link : parse_filters()) filters.push_back(std::move(link));
    return {line, FilterBlock{std::move(filters), parse_body("endfilter", "filter")}};
  }
  if (tag == "print") return {line, Print{parse_print()}};
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) fail_syntax("'" + tag + "' outside of a loop", line);
    if (tag == "break") return {line, Break{}};
    return {line, Continue{}};
  }
  for (const std::string_view loads : {"extends", "from", "import", "include"}) {
    if (tag == loads) fail_syntax("'" + tag + "' needs other templates; a chat has this one", line);
  }
  if (tag == "autoescape") fail_syntax("'autoescape' is for web pages, and not supported", line);
  fail_syntax("unknown tag '" + tag + "'", line);
}

ExprPtr Parser::parse_print() {
  Concat values;
  const int line = current().line;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!values.operands.empty()) expect_operator(",");
    values.operands.push_back(parse_expression());
  }
  return make(line, std::move(values));
}

If Parser::parse_if() {
  If node;
  while (true) {
    ExprPtr condition = parse_tuple(Ternary::kNot, false);
    skip_operator(":");
    expect_block_end();
    node.branches.emplace_back(std::move(condition), parse_block({"elif", "else", "endif"}, "if"));
    const std::string& tag = next().text;
    if (tag == "elif") continue;
    if (tag == "else") node.otherwise = parse_body("endif", "if");
    return node;
  }
}

For Parser::parse_for() {
  For node;
  node.target = parse_target_list("in");
  expect_name("in");
  node.iterable = parse_tuple(Ternary::kNot, false, "recursive");
  if (skip_name("if")) node.filter = parse_expression();
  node.recursive = skip_name("recursive");
  skip_operator(":");
  expect_block_end();
  ++loops_;
  node.body = parse_block({"endfor", "else"}, "for");
  --loops_;
  if (next().text == "else") node.otherwise = parse_body("endfor", "for");
  return node;
}

Statement Parser::parse_set(int line) {
  Target target;
  if (peek().kind == TokenKind::kOperator && peek().text == ".") {
    target.name = expect_identifier();
    next();
    target.attribute = expect_identifier();
  } else {
    target = parse_target_list("");
  }
  if (skip_operator("=")) {
    return {line, Set{std::move(target), parse_tuple(Ternary::kAllowed, false)}};
  }
  std::vector<Link> filters = parse_filters();
  return {line, SetBlock{std::move(target), std::move(filters), parse_body("endset", "set")}};
}

void Parser::parse_parameters(Macro& macro) {
  expect_operator("(");
  while (!is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    Text name = expect_identifier();
    ExprPtr fallback;
    if (skip_operator("=")) {
      fallback = parse_expression();
    } else if (!macro.parameters.empty() && macro.parameters.back().second) {
      fail_syntax("non-default argument follows default argument", current().line);
    }
    macro.parameters.emplace_back(std::move(name), std::move(fallback));
  }
  expect_operator(")");
}

Statement Parser::parse_macro(int line) {
  auto macro = std::make_shared<Macro>();
  macro->name = expect_identifier();
  parse_parameters(*macro);
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(macro.get());
  macro->body = parse_body("endmacro", "macro");
  macros_.pop_back();
  loops_ = loops;
  return {line, MacroDefinition{std::move(macro)}};
}

Statement Parser::parse_call_block(int line) {
  auto caller = std::make_shared<Macro>();
  caller->name = Text("caller");
  if (is_operator("(")) parse_parameters(*caller);
  ExprPtr call = parse_expression();
  auto* chain = std::get_if<Chain>(&call->node);
  if (!chain || !std::holds_alternative<CallLink>(chain->links.back().step)) {
    fail_syntax("expected call", line);
  }
  const int loops = std::exchange(loops_, 0);
  macros_.push_back(caller.get());
  caller->body = parse_body("endcall", "call");
  macros_.pop_back();
  loops_ = loops;
  return {line, CallBlock{std::move(call), std::move(caller)}};
}

With Parser::parse_with() {
  With node;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node.assignments.empty()) expect_operator(",");
    Target target = parse_target();
    expect_operator("=");
    node.assignments.emplace_back(std::move(target), parse_expression());
  }
  node.body = parse_body("endwith", "with");
  return node;
}

Scoped Parser::parse_named_block() {
  const Text name = expect_identifier();
  skip_name("scoped");
  Scoped node{parse_body("endblock", "block")};
  skip_name(name.str());
  return node;
}

Target Parser::parse_target_list(std::string_view end_name) {
  Target first = parse_target();
  if (!is_operator(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.items.push_back(std::move(first));
  while (skip_operator(",")) {
    if (is_operator(")") || is_operator("=") || (!end_name.empty() && is_name(end_name))) break;
    tuple.items.push_back(parse_target());
  }
  return tuple;
}

Target Parser::parse_target() {
  Level level(*this);
  if (skip_operator("(")) {
    Target target = parse_target_list("");
    expect_operator(")");
    return target;
  }
  constexpr std::string_view kReserved[] = {"true", "True", "false", "False", "none", "None"};
  const Token& token = current();
  if (std::find(std::begin(kReserved), std::end(kReserved), token.text) != std::end(kReserved)) {
    fail_syntax("cannot assign to '" + token.text + "'", token.line);
  }
  Target target;
  target.name = expect_identifier();
  return target;
}

}  // namespace bp::text::jinja

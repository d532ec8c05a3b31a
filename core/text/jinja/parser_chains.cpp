// Attributes, subscripts, calls, filters and tests behind an expression.

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/parser.hpp"

namespace bp::text::jinja {

ExprPtr Parser::parse_links(ExprPtr base, bool with_filters) {
  const int line = base->line;
  Chain chain;
  bool filtered = false;  // attributes and subscripts stand before the first filter
  while (true) {
    const int link_line = current().line;
    if (!filtered && (is_operator(".") || is_operator("["))) {
      chain.links.push_back(parse_attribute_or_item());
    } else if (is_operator("(")) {
      chain.links.push_back({link_line, CallLink{parse_arguments()}});
    } else if (with_filters && skip_operator("|")) {
      chain.links.push_back(parse_filter());
      filtered = true;
    } else if (with_filters && skip_name("is")) {
      chain.links.push_back(parse_test());
      filtered = true;
    } else {
      break;
    }
  }
  if (chain.links.empty()) return base;
  chain.base = std::move(base);
  return make(line, std::move(chain));
}

Link Parser::parse_attribute_or_item() {
  const int line = current().line;
  if (!skip_operator(".")) return parse_subscript();
  if (current().kind == TokenKind::kName) return {line, AttributeLink{expect_identifier()}};
  if (current().kind != TokenKind::kInteger) fail_syntax("expected name or number", line);
  return {line, ItemLink{parse_number()}};
}

Link Parser::parse_subscript() {
  const int line = next().line;
  ItemLink item;
  SliceLink slice;
  const auto at_bound = [&] { return !is_operator(":") && !is_operator("]"); };
  if (at_bound()) slice.start = parse_expression();
  if (is_operator(",")) {
    TupleLiteral tuple;
    tuple.items.push_back(std::move(slice.start));
    while (skip_operator(",")) {
      if (is_operator("]")) break;
      tuple.items.push_back(parse_expression());
    }
    expect_operator("]");
    return {line, ItemLink{make(line, std::move(tuple))}};
  }
  if (skip_operator("]")) {
    if (!slice.start) fail_syntax("expected subscript expression", line);
    return {line, ItemLink{std::move(slice.start)}};
  }
  expect_operator(":");
  if (at_bound()) slice.stop = parse_expression();
  if (skip_operator(":") && !is_operator("]")) slice.step = parse_expression();
  expect_operator("]");
  return {line, std::move(slice)};
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_identifier().str();
  while (skip_operator(".")) name += "." + expect_identifier().str();
  return name;
}

Link Parser::parse_filter() {
  const int line = current().line;
  FilterLink filter;
  filter.name = parse_dotted_name();
  filter.filter = find_filter(filter.name);
  if (is_operator("(")) filter.arguments = parse_arguments();
  return {line, std::move(filter)};
}

std::vector<Link> Parser::parse_filters() {
  std::vector<Link> filters;
  while (skip_operator("|")) filters.push_back(parse_filter());
  return filters;
}

Link Parser::parse_test() {
  const int line = current().line;
  TestLink test;
  test.negated = skip_name("not");
  test.name = parse_dotted_name();
  test.test = find_test(test.name);
  const TokenKind kind = current().kind;
  const bool starts_argument = kind == TokenKind::kName || kind == TokenKind::kString ||
                               kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
                               is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    test.arguments = parse_arguments();
  } else if (starts_argument && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail_syntax("You cannot chain multiple tests with is", line);
    Level level(*this);
    test.arguments.positional.push_back(parse_links(parse_primary(), false));
  }
  return {line, std::move(test)};
}

CallArguments Parser::parse_arguments() {
  const int line = current().line;
  expect_operator("(");
  const auto ensure = [&](bool valid) {
    if (!valid) fail_syntax("invalid syntax for function call expression", line);
  };
  CallArguments arguments;
  bool first = true;
  while (!is_operator(")")) {
    if (!first) expect_operator(",");
    first = false;
    if (is_operator(")")) break;
    if (skip_operator("*")) {
      ensure(!arguments.star && !arguments.double_star);
      arguments.star = parse_expression();
    } else if (skip_operator("**")) {
      ensure(!arguments.double_star);
      arguments.double_star = parse_expression();
    } else if (current().kind == TokenKind::kName && peek().kind == TokenKind::kOperator &&
               peek().text == "=") {
      ensure(!arguments.double_star);
      Text name = expect_identifier();
      next();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.named.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return arguments;
}

}  // namespace bp::text::jinja

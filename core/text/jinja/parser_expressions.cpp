#include <charconv>

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/parser.hpp"

namespace bp::text::jinja {

ExprPtr Parser::parse_expression(Ternary ternary) {
  Level level(*this);
  return ternary == Ternary::kAllowed ? parse_conditional() : parse_logical(false);
}

// One expression, or several with commas between as a tuple.
ExprPtr Parser::parse_tuple(Ternary ternary, bool parenthesized, std::string_view end_name) {
  const int line = current().line;
  const auto at_end = [&] {
    return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
           is_operator(")") || (!end_name.empty() && is_name(end_name));
  };
  TupleLiteral tuple;
  bool has_comma = false;
  while (!at_end()) {
    tuple.items.push_back(parse_expression(ternary));
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && tuple.items.size() == 1) return std::move(tuple.items[0]);
  if (tuple.items.empty() && !parenthesized) unexpected();
  return make(line, std::move(tuple));
}

ExprPtr Parser::parse_conditional() {
  const int line = current().line;
  ExprPtr value = parse_logical(false);
  if (!is_name("if")) return value;
  Conditional node;
  node.value = std::move(value);
  while (skip_name("if")) {
    node.conditions.push_back(parse_logical(false));
    if (skip_name("else")) {
      node.otherwise = parse_expression();
      break;
    }
  }
  return make(line, std::move(node));
}

ExprPtr Parser::parse_logical(bool is_and) {
  const int line = current().line;
  const auto operand = [&] { return is_and ? parse_not() : parse_logical(true); };
  const std::string_view word = is_and ? "and" : "or";
  ExprPtr first = operand();
  if (!is_name(word)) return first;
  Logical node{is_and, {}};
  node.operands.push_back(std::move(first));
  while (skip_name(word)) node.operands.push_back(operand());
  return make(line, std::move(node));
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_comparison();
  Level level(*this);
  const int line = next().line;
  return make(line, Not{parse_not()});
}

bool Parser::parse_compare_op(CompareOp& op) {
  constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  for (const auto& [text, candidate] : kOps) {
    op = candidate;
    if (skip_operator(text)) return true;
  }
  op = CompareOp::kIn;
  if (skip_name("in")) return true;
  op = CompareOp::kNotIn;
  if (!is_name("not") || peek().kind != TokenKind::kName || peek().text != "in") return false;
  next();
  next();
  return true;
}

ExprPtr Parser::parse_comparison() {
  const int line = current().line;
  ExprPtr first = parse_sum();
  Compare node;
  for (CompareOp op; parse_compare_op(op);) node.rest.emplace_back(op, parse_sum());
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(line, std::move(node));
}

template <class ParseOperand>
ExprPtr Parser::parse_arithmetic(
    std::initializer_list<std::pair<std::string_view, ArithmeticOp>> ops,
    ParseOperand parse_operand) {
  const int line = current().line;
  ExprPtr first = parse_operand();
  Arithmetic node;
  const auto parse_op = [&]() -> const ArithmeticOp* {
    for (const auto& op : ops) {
      if (skip_operator(op.first)) return &op.second;
    }
    return nullptr;
  };
  while (const ArithmeticOp* op = parse_op()) node.rest.emplace_back(*op, parse_operand());
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(line, std::move(node));
}

ExprPtr Parser::parse_sum() {
  return parse_arithmetic({{"+", ArithmeticOp::kAdd}, {"-", ArithmeticOp::kSub}},
                          [&] { return parse_concat(); });
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  ExprPtr first = parse_product();
  if (!is_operator("~")) return first;
  Concat node;
  node.operands.push_back(std::move(first));
  while (skip_operator("~")) node.operands.push_back(parse_product());
  return make(line, std::move(node));
}

ExprPtr Parser::parse_product() {
  return parse_arithmetic({{"*", ArithmeticOp::kMul},
                           {"/", ArithmeticOp::kDiv},
                           {"//", ArithmeticOp::kFloorDiv},
                           {"%", ArithmeticOp::kMod}},
                          [&] { return parse_power(); });
}

ExprPtr Parser::parse_power() {
  return parse_arithmetic({{"**", ArithmeticOp::kPow}}, [&] { return parse_unary(true); });
}

ExprPtr Parser::parse_unary(bool with_filters) {
  const int line = current().line;
  if (!is_operator("-") && !is_operator("+")) return parse_links(parse_primary(), with_filters);
  Level level(*this);
  const bool negative = next().text == "-";
  ExprPtr operand = parse_unary(false);
  return parse_links(make(line, Sign{negative, std::move(operand)}), with_filters);
}

ExprPtr Parser::parse_primary() {
  const Token& token = current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    case TokenKind::kName:
      break;
    default:
      if (is_operator("[")) return parse_list();
      if (is_operator("{")) return parse_dict();
      expect_operator("(");
      ExprPtr inner = parse_tuple(Ternary::kAllowed, true);
      expect_operator(")");
      return inner;
  }
  const std::string& name = next().text;
  if (name == "true" || name == "True") return make(line, Literal{Value::boolean(true)});
  if (name == "false" || name == "False") return make(line, Literal{Value::boolean(false)});
  if (name == "none" || name == "None") return make(line, Literal{Value::none()});
  for (Macro* macro : macros_) {
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_caller |= name == "caller";
  }
  return make(line, Name{Text(name)});
}

ExprPtr Parser::parse_string() {
  const int line = current().line;
  std::string text;
  while (current().kind == TokenKind::kString) text += next().text;
  return make(line, Literal{Text(std::move(text))});
}

ExprPtr Parser::parse_number() {
  const Token& token = next();
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    const auto result =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (result.ec != std::errc()) fail_syntax("float out of range", token.line);
    return make(token.line, Literal{Value::real(value)});
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0' && (digits[1] < '0' || digits[1] > '9')) {
    base = (digits[1] | 32) == 'x' ? 16 : (digits[1] | 32) == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size()) {
    fail_syntax("bad integer '" + token.text + "'", token.line);
  }
  return make(token.line, Literal{Value::integer(value)});
}

ExprPtr Parser::parse_list() {
  const int line = next().line;
  ListLiteral node;
  while (!is_operator("]")) {
    if (!node.items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node.items.push_back(parse_expression());
  }
  next();
  return make(line, std::move(node));
}

ExprPtr Parser::parse_dict() {
  const int line = next().line;
  DictLiteral node;
  while (!is_operator("}")) {
    if (!node.entries.empty()) expect_operator(",");
    if (is_operator("}")) break;
    ExprPtr key = parse_expression();
    expect_operator(":");
    ExprPtr value = parse_expression();
    node.entries.emplace_back(std::move(key), std::move(value));
  }
  next();
  return make(line, std::move(node));
}

}  // namespace bp::text::jinja

#include <charconv>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "core/model/expression_tree.hpp"

namespace bp::model {

namespace {

using Node = Expression::Node;

constexpr size_t kLongest = 2000;
constexpr int kDeepest = 64;

struct Token {
  std::string_view text;
  Operator op;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

// After the first error all text counts as read, so that every loop ends.
class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Result<Node> run() {
    if (text_.size() > kLongest) fail(fmt::format("longer than {} characters", kLongest));
    Node root = if_else();
    skip_spaces();
    if (at_ < text_.size()) fail(fmt::format("unexpected '{}'", text_[at_]));
    if (!error_.empty()) return invalid_argument(error_);
    return root;
  }

 private:
  void fail(const std::string& reason) {
    if (error_.empty()) error_ = expression_error(text_, column(), reason);
    at_ = text_.size();
  }
  [[nodiscard]] uint32_t column() const { return static_cast<uint32_t>(at_ + 1); }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t') ++at_;
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (std::string_view(text_).substr(at_, token.size()) != token) return false;
    const size_t end = at_ + token.size();
    if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("expected '{}'", token));
  }

  Node make(NodeKind kind, uint32_t at, Operator op = Operator::kNone) const {
    Node node;
    node.kind = kind;
    node.op = op;
    node.column = at;
    return node;
  }
  template <class... Children>
  Node branch(NodeKind kind, Operator op, uint32_t at, Children... children) const {
    Node node = make(kind, at, op);
    (node.children.push_back(std::move(children)), ...);
    return node;
  }

  Node if_else() {
    if (++depth_ > kDeepest) fail("nested too deeply");
    Node value = disjunction();
    skip_spaces();
    const uint32_t at = column();
    if (take("if")) {
      Node condition = disjunction();
      expect("else");
      Node otherwise = if_else();
      value = branch(NodeKind::kIfElse, Operator::kNone, at, std::move(condition), std::move(value),
                     std::move(otherwise));
    }
    --depth_;
    return value;
  }

  using Rule = Node (Parser::*)();
  // Left-associative operators of one precedence, over operands of the next. A long chain grows
  // the tree by one level each, hence the bound.
  Node chain(Rule operand, std::initializer_list<Token> tokens) {
    Node left = (this->*operand)();
    for (int n = 0;; ++n) {
      skip_spaces();
      const uint32_t at = column();
      const Operator op = take_one(tokens);
      if (op == Operator::kNone) return left;
      if (n == kDeepest) fail("too many operators in a row");
      left = branch(NodeKind::kBinary, op, at, std::move(left), (this->*operand)());
    }
  }
  Operator take_one(std::initializer_list<Token> tokens) {
    for (const Token& token : tokens) {
      if (take(token.text)) return token.op;
    }
    return Operator::kNone;
  }

  Node disjunction() { return chain(&Parser::conjunction, {{"or", Operator::kOr}}); }
  Node conjunction() { return chain(&Parser::negation, {{"and", Operator::kAnd}}); }

  Node negation() {
    skip_spaces();
    const uint32_t at = column();
    if (!take("not")) return comparison();
    if (++depth_ > kDeepest) fail("nested too deeply");
    Node node = branch(NodeKind::kUnary, Operator::kNot, at, negation());
    --depth_;
    return node;
  }

  Node comparison() {
    Node left = sum();
    skip_spaces();
    const uint32_t at = column();
    const Operator op = take_one({{"==", Operator::kEqual},
                                  {"!=", Operator::kNotEqual},
                                  {"<=", Operator::kLessEqual},
                                  {">=", Operator::kGreaterEqual},
                                  {"<", Operator::kLess},
                                  {">", Operator::kGreater}});
    if (op == Operator::kNone) return left;
    return branch(NodeKind::kBinary, op, at, std::move(left), sum());
  }

  Node sum() {
    return chain(&Parser::product, {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
  }
  Node product() {
    return chain(&Parser::unary, {{"*", Operator::kMultiply},
                                  {"//", Operator::kFloorDivide},
                                  {"/", Operator::kDivide},
                                  {"%", Operator::kModulo}});
  }

  Node unary() {
    skip_spaces();
    const uint32_t at = column();
    if (!take("-")) return postfix();
    if (++depth_ > kDeepest) fail("nested too deeply");
    Node node = branch(NodeKind::kUnary, Operator::kNegate, at, unary());
    --depth_;
    return node;
  }

  Node postfix() {
    Node value = primary();
    skip_spaces();
    const uint32_t at = column();
    if (!take("[")) return value;
    Node index = if_else();
    expect("]");
    return branch(NodeKind::kIndex, Operator::kNone, at, std::move(value), std::move(index));
  }

  Node primary() {
    skip_spaces();
    if (take("(")) {
      Node inner = if_else();
      expect(")");
      return inner;
    }
    if (peek() == '"') return string();
    if (is_digit(peek())) return number();
    return word();
  }

  Node string() {
    Node node = make(NodeKind::kLiteral, column());
    const size_t end = text_.find('"', at_ + 1);
    if (end == std::string::npos) {
      fail("a string without its closing quote");
      return node;
    }
    node.literal = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return node;
  }

  Node number() {
    Node node = make(NodeKind::kLiteral, column());
    const char *first = text_.data() + at_, *last = text_.data() + text_.size();
    double real = 0;
    const auto [real_end, real_code] = std::from_chars(first, last, real);
    int64_t whole = 0;
    const auto [whole_end, whole_code] = std::from_chars(first, last, whole);
    const char* end = real_end;
    const bool is_whole = whole_end == real_end;
    if (real_code != std::errc() || (is_whole && whole_code != std::errc())) {
      fail("a number out of range");
      return node;
    }
    if (end != last && is_word(*end)) {
      fail("not a number");
      return node;
    }
    node.literal = is_whole ? Value(whole) : Value(real);
    at_ += static_cast<size_t>(end - first);
    return node;
  }

  Node word() {
    Node node = make(NodeKind::kName, column());
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_) {
      fail(at_ < text_.size() ? fmt::format("unexpected '{}'", text_[at_]) : "ends too early");
      return node;
    }
    node.name = text_.substr(at_, end - at_);
    for (const char* reserved : {"if", "else", "and", "or", "not"}) {
      if (node.name == reserved) {
        fail(fmt::format("unexpected '{}'", reserved));
        return node;
      }
    }
    at_ = end;
    if (node.name == "true" || node.name == "false") return constant(node, node.name == "true");
    if (node.name == "none") return constant(node, Value());
    if (take("(")) arguments(node);
    return node;
  }
  static Node constant(Node node, Value value) {
    node.kind = NodeKind::kLiteral;
    node.literal = std::move(value);
    return node;
  }
  void arguments(Node& call) {
    call.kind = NodeKind::kCall;
    if (take(")")) return;
    do {
      call.children.push_back(if_else());
    } while (take(","));
    expect(")");
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string error_;
};

}  // namespace

std::string expression_error(const std::string& text, uint32_t column, const std::string& reason) {
  return fmt::format("column {} of `{}`: {}", column, text.substr(0, kLongest), reason);
}

Result<Expression::Node> parse_expression(const std::string& text) {
  return Parser(text).run();
}

}  // namespace bp::model

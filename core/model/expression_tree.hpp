#pragma once
// The parsed form of an expression, between its parser and its evaluator.

#include <string>
#include <vector>

#include "core/model/expression.hpp"

namespace bp::model {

enum class NodeKind : uint8_t { kLiteral, kName, kCall, kIndex, kUnary, kBinary, kIfElse };

enum class Operator : uint8_t {
  kNone,
  kOr,
  kAnd,
  kNot,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kNegate,
};

// Children by kind: call its arguments; index {list, index}; if-else {condition, then, otherwise}.
struct Expression::Node {
  NodeKind kind = NodeKind::kLiteral;
  Operator op = Operator::kNone;
  uint32_t column = 1;
  Value literal;
  std::string name;  // of a name or a function
  std::vector<Node> children;
};

struct Expression::Tree {
  std::string text;
  Node root;
};

// "column N of `TEXT`: reason".
std::string expression_error(const std::string& text, uint32_t column, const std::string& reason);

// The node's tree; depth at most 64.
Result<Expression::Node> parse_expression(const std::string& text);

}  // namespace bp::model

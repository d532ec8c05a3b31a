#include "core/model/expression.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/model/expression_tree.hpp"

namespace bp::model {

namespace {

using Node = Expression::Node;

class Evaluator {
 public:
  Evaluator(const std::string& text, const Scope& scope) : text_(text), scope_(scope) {}

  Result<Value> evaluate(const Node& node) const {
    switch (node.kind) {
      case NodeKind::kLiteral:
        return node.literal;
      case NodeKind::kName:
        return name(node);
      case NodeKind::kCall:
        return call(node);
      case NodeKind::kIndex:
        return index(node);
      case NodeKind::kUnary:
        return unary(node);
      case NodeKind::kBinary:
        return binary(node);
      case NodeKind::kIfElse:
        break;
    }
    BP_ASSIGN(const bool chosen, condition(node.children[0]));
    return evaluate(node.children[chosen ? 1 : 2]);
  }

 private:
  [[nodiscard]] Status error(const Node& node, const std::string& reason) const {
    return invalid_argument(expression_error(text_, node.column, reason));
  }

  Result<Value> name(const Node& node) const {
    if (auto value = scope_.find(node.name)) return *std::move(value);
    return error(node, fmt::format("unknown name '{}'", node.name));
  }

  Result<bool> condition(const Node& node) const {
    BP_ASSIGN(const Value value, evaluate(node));
    if (const auto b = value.as_bool()) return *b;
    return error(node, fmt::format("needs a bool, found {} ({})", value.text(), value.type_name()));
  }
  Result<Value> number(const Node& node) const {
    BP_ASSIGN(Value value, evaluate(node));
    if (value.as_number()) return value;
    return error(node,
                 fmt::format("needs a number, found {} ({})", value.text(), value.type_name()));
  }

  Result<Value> index(const Node& node) const {
    BP_ASSIGN(const Value list, evaluate(node.children[0]));
    BP_ASSIGN(const Value at, evaluate(node.children[1]));
    if (!list.is_list()) return error(node, fmt::format("a {} has no elements", list.type_name()));
    const auto i = at.as_int();
    if (!i || *i < 0 || static_cast<uint64_t>(*i) >= list.list().size()) {
      return error(node,
                   fmt::format("index {} of a list of {} elements", at.text(), list.list().size()));
    }
    return list.list()[static_cast<size_t>(*i)];
  }

  Result<Value> call(const Node& node) const {
    const auto& arguments = node.children;
    if (node.name == "len") return length(node);
    if (node.name == "min" || node.name == "max") return extreme(node);
    if (node.name == "floor") return floored(node);
    if (node.name == "contains") return contains(node);
    if (node.name == "sqrt" || node.name == "log" || node.name == "exp" || node.name == "abs") {
      if (arguments.size() != 1) return error(node, node.name + " takes one number");
      BP_ASSIGN(const Value x, number(arguments[0]));
      if (node.name == "log") return finite(node, std::log(*x.as_number()));
      if (node.name == "exp") return finite(node, std::exp(*x.as_number()));
      if (node.name == "sqrt") return finite(node, std::sqrt(*x.as_number()));
      return *x.as_number() < 0 ? negate(node, x) : Result<Value>(x);
    }
    if (arguments.size() != 1 || arguments[0].kind != NodeKind::kName) {
      return error(node, fmt::format("unknown function '{}'", node.name));
    }
    if (auto value = scope_.query(node.name, arguments[0].name)) return *std::move(value);
    return error(node, fmt::format("cannot tell {}({})", node.name, arguments[0].name));
  }

  Result<Value> floored(const Node& node) const {
    if (node.children.size() != 1) return error(node, "floor takes one number");
    BP_ASSIGN(const Value x, number(node.children[0]));
    if (x.as_int()) return x;
    const double whole = std::floor(*x.as_number());
    if (std::abs(whole) >= 9007199254740992.0) return error(node, "the result is out of range");
    return Value(static_cast<int64_t>(whole));
  }

  Result<Value> contains(const Node& node) const {
    if (node.children.size() != 2) return error(node, "contains takes a list and a value");
    BP_ASSIGN(const Value list, evaluate(node.children[0]));
    BP_ASSIGN(const Value wanted, evaluate(node.children[1]));
    if (!list.is_list()) return error(node, fmt::format("a {} has no elements", list.type_name()));
    const auto same = [&](const Value& element) { return equal(element, wanted); };
    return Value(std::any_of(list.list().begin(), list.list().end(), same));
  }

  Result<Value> length(const Node& node) const {
    if (node.children.size() != 1) return error(node, "len takes one list");
    BP_ASSIGN(const Value list, evaluate(node.children[0]));
    if (!list.is_list()) return error(node, fmt::format("len of a {}", list.type_name()));
    return Value(static_cast<int64_t>(list.list().size()));
  }

  // Of the arguments, or of the elements of one list.
  Result<Value> extreme(const Node& node) const {
    List values;
    for (const Node& child : node.children) {
      BP_ASSIGN(Value value, evaluate(child));
      values.push_back(std::move(value));
    }
    if (values.size() == 1 && values[0].is_list()) values = List(values[0].list());
    if (values.empty()) return error(node, node.name + " of nothing");
    const Value* best = nullptr;
    for (const Value& value : values) {
      if (!value.as_number()) return error(node, node.name + " needs numbers");
      const bool less = best != nullptr && *value.as_number() < *best->as_number();
      const bool greater = best != nullptr && *value.as_number() > *best->as_number();
      if (best == nullptr || (node.name == "min" ? less : greater)) best = &value;
    }
    return Value(*best);
  }

  Result<Value> unary(const Node& node) const {
    if (node.op == Operator::kNot) {
      BP_ASSIGN(const bool value, condition(node.children[0]));
      return Value(!value);
    }
    BP_ASSIGN(const Value value, number(node.children[0]));
    return negate(node, value);
  }
  Result<Value> negate(const Node& node, const Value& value) const {
    const auto i = value.as_int();
    if (!i) return Value(-*value.as_number());
    if (*i == INT64_MIN) return error(node, "the result is out of range");
    return Value(-*i);
  }

  Result<Value> binary(const Node& node) const {
    if (node.op == Operator::kAnd || node.op == Operator::kOr) {
      BP_ASSIGN(const bool left, condition(node.children[0]));
      if (left == (node.op == Operator::kOr)) return Value(left);
      BP_ASSIGN(const bool right, condition(node.children[1]));
      return Value(right);
    }
    if (node.op == Operator::kEqual || node.op == Operator::kNotEqual) {
      BP_ASSIGN(const Value left, evaluate(node.children[0]));
      BP_ASSIGN(const Value right, evaluate(node.children[1]));
      return Value(equal(left, right) == (node.op == Operator::kEqual));
    }
    BP_ASSIGN(const Value left, number(node.children[0]));
    BP_ASSIGN(const Value right, number(node.children[1]));
    if (node.op < Operator::kAdd) return Value(order(node.op, left, right));
    if (left.as_int() && right.as_int() && node.op != Operator::kDivide) {
      return whole(node, *left.as_int(), *right.as_int());
    }
    return real(node, *left.as_number(), *right.as_number());
  }

  static bool order(Operator op, const Value& left, const Value& right) {
    const bool ints = left.as_int() && right.as_int();
    const bool less =
        ints ? *left.as_int() < *right.as_int() : *left.as_number() < *right.as_number();
    const bool same = equal(left, right);
    if (op == Operator::kLess) return less;
    if (op == Operator::kLessEqual) return less || same;
    return op == Operator::kGreaterEqual ? !less : !less && !same;
  }

  Result<Value> whole(const Node& node, int64_t a, int64_t b) const {
    int64_t out = 0;
    bool overflow = false;
    switch (node.op) {
      case Operator::kAdd:
        overflow = __builtin_add_overflow(a, b, &out);
        break;
      case Operator::kSubtract:
        overflow = __builtin_sub_overflow(a, b, &out);
        break;
      case Operator::kMultiply:
        overflow = __builtin_mul_overflow(a, b, &out);
        break;
      default:
        if (b == 0) return error(node, "division by zero");
        if (b == -1) return node.op == Operator::kModulo ? Value(int64_t{0}) : negate(node, a);
        out = a % b;
        if (out != 0 && (out < 0) != (b < 0)) out += b;
        if (node.op == Operator::kFloorDivide) out = (a - out) / b;
    }
    if (overflow) return error(node, "the result is out of range");
    return Value(out);
  }

  Result<Value> real(const Node& node, double a, double b) const {
    switch (node.op) {
      case Operator::kAdd:
        return finite(node, a + b);
      case Operator::kSubtract:
        return finite(node, a - b);
      case Operator::kMultiply:
        return finite(node, a * b);
      default:
        break;
    }
    if (b == 0) return error(node, "division by zero");
    if (node.op == Operator::kDivide) return finite(node, a / b);
    const double quotient = std::floor(a / b);
    return finite(node, node.op == Operator::kFloorDivide ? quotient : a - b * quotient);
  }
  Result<Value> finite(const Node& node, double value) const {
    if (!std::isfinite(value)) return error(node, "the result is not finite");
    return Value(value);
  }

  const std::string& text_;
  const Scope& scope_;
};

}  // namespace

Result<Expression> Expression::parse(std::string text) {
  BP_ASSIGN(Node root, parse_expression(text));
  return Expression(std::make_shared<const Tree>(Tree{std::move(text), std::move(root)}));
}

const std::string& Expression::text() const {
  return tree_->text;
}

Result<Value> Expression::evaluate(const Scope& scope) const {
  return Evaluator(tree_->text, scope).evaluate(tree_->root);
}

Status Expression::wrong_type(const char* expected, const Value& found) const {
  return invalid_argument(expression_error(
      text(), 1,
      fmt::format("expected {}, found {} ({})", expected, found.text(), found.type_name())));
}

Result<bool> Expression::condition(const Scope& scope) const {
  BP_ASSIGN(const Value value, evaluate(scope));
  if (const auto b = value.as_bool()) return *b;
  return wrong_type("a bool", value);
}

Result<int64_t> Expression::integer(const Scope& scope) const {
  BP_ASSIGN(const Value value, evaluate(scope));
  if (const auto i = value.as_int()) return *i;
  return wrong_type("an integer", value);
}

Result<double> Expression::number(const Scope& scope) const {
  BP_ASSIGN(const Value value, evaluate(scope));
  if (const auto x = value.as_number()) return *x;
  return wrong_type("a number", value);
}

}  // namespace bp::model

#pragma once
// The syntax tree. Operator chains and postfix chains are flat lists, so that the height of the
// tree is bounded by the nesting that the parser allows and recursion over it is safe.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
struct Statement;
using Block = std::vector<Statement>;

// Expressions.

struct Literal {
  Value value;  // none, bool, number or text
};
struct Name {
  Text name;
};
struct ListLiteral {
  std::vector<ExprPtr> items;
};
struct TupleLiteral {
  std::vector<ExprPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
// `value if c1 if c2 else otherwise`: conditions are tried from the last to the first; only the
// last has an `otherwise`, and without one the result is undefined.
struct Conditional {
  ExprPtr value;
  std::vector<ExprPtr> conditions;
  ExprPtr otherwise;
};
struct Logical {
  bool is_and;
  std::vector<ExprPtr> operands;
};
struct Not {
  ExprPtr operand;
};
struct Compare {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Arithmetic {  // left associative
  ExprPtr first;
  std::vector<std::pair<ArithmeticOp, ExprPtr>> rest;
};
struct Concat {
  std::vector<ExprPtr> operands;
};
struct Sign {
  bool negative;
  ExprPtr operand;
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<Text, ExprPtr>> named;
  ExprPtr star, double_star;
};

struct AttributeLink {
  Text name;
};
struct ItemLink {
  ExprPtr key;
};
struct SliceLink {
  ExprPtr start, stop, step;
};
struct CallLink {
  CallArguments arguments;
};
struct FilterLink {
  std::string name;
  const Builtin* filter;  // null where no filter has this name
  CallArguments arguments;
};
struct TestLink {
  std::string name;
  const Builtin* test;
  CallArguments arguments;
  bool negated;
};
struct Link {
  int line;
  std::variant<AttributeLink, ItemLink, SliceLink, CallLink, FilterLink, TestLink> step;
};
// base.a["b"](c)|filter is test
struct Chain {
  ExprPtr base;
  std::vector<Link> links;
};

struct Expr {
  int line;
  std::variant<Literal, Name, ListLiteral, TupleLiteral, DictLiteral, Conditional, Logical, Not,
               Compare, Arithmetic, Concat, Sign, Chain>
      node;
};

// Statements.

// What set, for and with assign to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  Text name;
  std::optional<Text> attribute;
  std::vector<Target> items;  // a tuple where is_tuple
  bool is_tuple = false;
};

struct Data {
  std::string text;
};
struct Print {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr iterable, filter;
  Block body, otherwise;
  bool recursive = false;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  std::vector<Link> filters;
  Block body;
};
struct Macro {
  Text name;
  std::vector<std::pair<Text, ExprPtr>> parameters;  // with default or null
  Block body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};
struct MacroDefinition {
  std::shared_ptr<const Macro> macro;
};
struct CallBlock {
  ExprPtr call;  // a Chain that ends in a call
  std::shared_ptr<const Macro> caller;
};
struct FilterBlock {
  std::vector<Link> filters;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Block body;
};
struct Scoped {  // generation and block
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Data, Print, If, For, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock, With,
               Scoped, Break, Continue>
      node;
};

struct TemplateAst {
  Block body;
};

}  // namespace bp::text::jinja

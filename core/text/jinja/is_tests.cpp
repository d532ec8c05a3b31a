// Tests: the names after `is`.

#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

template <CompareOp op>
Value comparison(Runtime& runtime, const Value& self, BoundArguments& args) {
  return Value::boolean(compare(runtime, op, self, args.at(0)));
}

// self modulo n, for odd, even and divisibleby.
Value remainder(Runtime& runtime, const Value& self, const Value& n) {
  require_defined(self);
  if (!is_number(self)) fail(std::string("a number is required, not ") + type_name(self));
  return arithmetic(runtime, ArithmeticOp::kMod, self, n);
}

Value boolean(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.get<bool>() != nullptr);
}
Value callable(Runtime&, const Value& self, BoundArguments&) {
  const Object* object = self.any_object();
  return Value::boolean(self.is_undefined() || (object && (object->kind == ObjectKind::kCallable ||
                                                           object->kind == ObjectKind::kJoiner ||
                                                           object->kind == ObjectKind::kLoop)));
}
Value defined(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(!self.is_undefined());
}
Value divisibleby(Runtime& runtime, const Value& self, BoundArguments& args) {
  return Value::boolean(!truthy(remainder(runtime, self, args.at(0))));
}
Value escaped(Runtime&, const Value& self, BoundArguments&) {
  auto* text = self.get<Text>();
  return Value::boolean(text && text->markup());
}
Value even(Runtime& runtime, const Value& self, BoundArguments&) {
  return Value::boolean(!truthy(remainder(runtime, self, Value::integer(2))));
}
Value false_test(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.get<bool>() && !*self.get<bool>());
}
Value filter(Runtime& runtime, const Value& self, BoundArguments&) {
  runtime.check_key(self);
  return Value::boolean(find_filter(to_str(runtime, self)) != nullptr);
}
Value float_test(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.get<double>() != nullptr);
}
Value in(Runtime& runtime, const Value& self, BoundArguments& args) {
  return Value::boolean(contains(runtime, args.at(0), self));
}
Value integer(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.get<Integer>() != nullptr);
}
Value iterable(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(is_iterable(self));
}
Value lower(Runtime& runtime, const Value& self, BoundArguments&) {
  return call_builtin(runtime, *find_in_table(text_methods(), "islower"), to_text(runtime, self),
                      {});
}
Value mapping(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.object<Dict>() != nullptr);
}
Value none(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.is_none());
}
Value number(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(is_number(self));
}
Value odd(Runtime& runtime, const Value& self, BoundArguments&) {
  return Value::boolean(
      equal(runtime, remainder(runtime, self, Value::integer(2)), Value::integer(1)));
}
Value sameas(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Value& other = args.at(0);
  if (self.any_object() || other.any_object()) {
    return Value::boolean(self.any_object() == other.any_object());
  }
  auto *a = self.get<Text>(), *b = other.get<Text>();
  if (a && b) return Value::boolean(a->same(*b) || equal(runtime, self, other));
  const bool same_type = type_name(self) == std::string_view(type_name(other));
  return Value::boolean(same_type && equal(runtime, self, other));
}
Value sequence(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.is_undefined() || self.get<Text>() || sequence_items(self) ||
                        self.object<Dict>() || self.object<Range>());
}
Value string(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.get<Text>() != nullptr);
}
Value test(Runtime& runtime, const Value& self, BoundArguments&) {
  runtime.check_key(self);
  return Value::boolean(find_test(to_str(runtime, self)) != nullptr);
}
Value true_test(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.get<bool>() && *self.get<bool>());
}
Value undefined(Runtime&, const Value& self, BoundArguments&) {
  return Value::boolean(self.is_undefined());
}
Value upper(Runtime& runtime, const Value& self, BoundArguments&) {
  return call_builtin(runtime, *find_in_table(text_methods(), "isupper"), to_text(runtime, self),
                      {});
}

constexpr Builtin kTests[] = {
    {"!=", comparison<CompareOp::kNe>, "other", 1},
    {"<", comparison<CompareOp::kLt>, "other", 1},
    {"<=", comparison<CompareOp::kLe>, "other", 1},
    {"==", comparison<CompareOp::kEq>, "other", 1},
    {">", comparison<CompareOp::kGt>, "other", 1},
    {">=", comparison<CompareOp::kGe>, "other", 1},
    {"boolean", boolean},
    {"callable", callable},
    {"defined", defined},
    {"divisibleby", divisibleby, "num", 1},
    {"eq", comparison<CompareOp::kEq>, "other", 1},
    {"equalto", comparison<CompareOp::kEq>, "other", 1},
    {"escaped", escaped},
    {"even", even},
    {"false", false_test},
    {"filter", filter},
    {"float", float_test},
    {"ge", comparison<CompareOp::kGe>, "other", 1},
    {"greaterthan", comparison<CompareOp::kGt>, "other", 1},
    {"gt", comparison<CompareOp::kGt>, "other", 1},
    {"in", in, "seq", 1},
    {"integer", integer},
    {"iterable", iterable},
    {"le", comparison<CompareOp::kLe>, "other", 1},
    {"lessthan", comparison<CompareOp::kLt>, "other", 1},
    {"lower", lower},
    {"lt", comparison<CompareOp::kLt>, "other", 1},
    {"mapping", mapping},
    {"ne", comparison<CompareOp::kNe>, "other", 1},
    {"none", none},
    {"number", number},
    {"odd", odd},
    {"sameas", sameas, "other", 1},
    {"sequence", sequence},
    {"string", string},
    {"test", test},
    {"true", true_test},
    {"undefined", undefined},
    {"upper", upper},
};
static_assert(is_sorted_table(kTests));

}  // namespace

const Builtin* find_test(std::string_view name) {
  return find_in_table(kTests, name);
}

}  // namespace bp::text::jinja

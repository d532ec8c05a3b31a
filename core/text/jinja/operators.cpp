#include "core/text/jinja/operators.hpp"

#include <cmath>
#include <string>

#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

const char* symbol(ArithmeticOp op) {
  constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return kSymbols[static_cast<int>(op)];
}

[[noreturn]] void unsupported_operands(ArithmeticOp op, const Value& a, const Value& b) {
  if (op == ArithmeticOp::kAdd && a.get<Text>()) {
    fail(std::string("can only concatenate str (not \"") + type_name(b) + "\") to str");
  }
  fail(std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(a) +
       "' and '" + type_name(b) + "'");
}

[[noreturn]] void overflow() {
  fail("integer too large");
}

Integer modulo(Integer a, Integer b) {
  if (b == -1) return 0;
  const Integer r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Value integer_arithmetic(ArithmeticOp op, Integer a, Integer b) {
  Integer result = 0;
  switch (op) {
    case ArithmeticOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case ArithmeticOp::kSub:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case ArithmeticOp::kMul:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case ArithmeticOp::kPow:
      if (b < 0) {
        if (a == 0) fail("0.0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      return Value::integer(checked_pow(a, b));
    case ArithmeticOp::kDiv:
      if (b == 0) fail("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case ArithmeticOp::kFloorDiv:
      return Value::integer(floor_divide(a, b));
    case ArithmeticOp::kMod:
      if (b == 0) fail("integer division or modulo by zero");
      return Value::integer(modulo(a, b));
  }
  return {};
}

double float_modulo(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

// As Python: a / b can round up to the next integer where the quotient lies below it.
double float_floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(b) && std::floor(b) != b) fail("complex numbers are not supported");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b))
    fail("Numerical result out of range");
  return power;
}

Value float_arithmetic(ArithmeticOp op, double a, double b) {
  const bool divides =
      op == ArithmeticOp::kDiv || op == ArithmeticOp::kFloorDiv || op == ArithmeticOp::kMod;
  if (divides && b == 0) fail("float division by zero");
  switch (op) {
    case ArithmeticOp::kAdd:
      return Value::real(a + b);
    case ArithmeticOp::kSub:
      return Value::real(a - b);
    case ArithmeticOp::kMul:
      return Value::real(a * b);
    case ArithmeticOp::kDiv:
      return Value::real(a / b);
    case ArithmeticOp::kFloorDiv:
      return Value::real(float_floor_divide(a, b));
    case ArithmeticOp::kMod:
      return Value::real(float_modulo(a, b));
    case ArithmeticOp::kPow:
      return Value::real(float_power(a, b));
  }
  return {};
}

// markupsafe: a Markup operand escapes the other side.
Value concatenate(Runtime& runtime, const Text& a, const Text& b) {
  const bool markup = a.markup() || b.markup();
  std::string left = markup && !a.markup() ? escape_html(a.str()) : a.str();
  const std::string right = markup && !b.markup() ? escape_html(b.str()) : b.str();
  runtime.check_text_size(left.size() + right.size());
  return runtime.text(std::move(left.append(right)), markup);
}

// How often `*` repeats `size` units, within the limits.
size_t repetitions(Runtime& runtime, size_t size, Integer n) {
  if (n <= 0 || size == 0) return 0;
  if (n > static_cast<Integer>(runtime.options().max_output_bytes / size)) {
    fail_limit("repetition longer than the output limit");
  }
  return static_cast<size_t>(n);
}

std::optional<Value> repeat(Runtime& runtime, const Value& value, const Value& count) {
  Integer storage = 0;
  const Integer* n = integer_or_bool(count, storage);
  if (!n) return std::nullopt;
  if (auto* text = value.get<Text>()) {
    const size_t times = repetitions(runtime, text->str().size(), *n);
    std::string out;
    out.reserve(times * text->str().size());
    for (size_t i = 0; i < times; ++i) out += text->str();
    return runtime.text(std::move(out), text->markup());
  }
  const std::vector<Value>* items = sequence_items(value);
  if (!items) return std::nullopt;
  const size_t times = repetitions(runtime, items->size() * sizeof(Value), *n);
  runtime.spend(times * items->size());
  std::vector<Value> out;
  out.reserve(times * items->size());
  for (size_t i = 0; i < times; ++i) out.insert(out.end(), items->begin(), items->end());
  if (value.object<List>()) return Value(runtime.list(std::move(out)));
  return Value(runtime.tuple(std::move(out)));
}

std::vector<Value> joined(const std::vector<Value>& a, const std::vector<Value>& b) {
  std::vector<Value> out;
  out.reserve(a.size() + b.size());
  out.insert(out.end(), a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

std::optional<Value> sequence_arithmetic(Runtime& runtime, ArithmeticOp op, const Value& a,
                                         const Value& b) {
  if (op == ArithmeticOp::kAdd) {
    auto *ta = a.get<Text>(), *tb = b.get<Text>();
    if (ta && tb) return concatenate(runtime, *ta, *tb);
    auto *la = a.object<List>(), *lb = b.object<List>();
    if (la && lb) return Value(runtime.list(joined(la->items, lb->items)));
    auto *pa = a.object<Tuple>(), *pb = b.object<Tuple>();
    if (pa && pb) return Value(runtime.tuple(joined(pa->items, pb->items)));
  } else if (op == ArithmeticOp::kMul) {
    if (auto value = repeat(runtime, a, b)) return value;
    return repeat(runtime, b, a);
  } else if (op == ArithmeticOp::kMod) {
    if (auto* text = a.get<Text>()) return format_percent(runtime, *text, b);
  }
  return std::nullopt;
}

}  // namespace

Integer checked_pow(Integer base, Integer exponent) {
  Integer result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return result;
}

Integer floor_divide(Integer a, Integer b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (b == -1) {
    Integer result = 0;
    if (__builtin_sub_overflow(Integer{0}, a, &result)) overflow();
    return result;
  }
  const Integer q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Value arithmetic(Runtime& runtime, ArithmeticOp op, const Value& a, const Value& b) {
  require_defined(a);
  if (!(op == ArithmeticOp::kMod && a.get<Text>())) require_defined(b);
  if (is_number(a) && is_number(b)) {
    Integer sa = 0, sb = 0;
    const Integer* ia = integer_or_bool(a, sa);
    const Integer* ib = integer_or_bool(b, sb);
    return ia && ib ? integer_arithmetic(op, *ia, *ib)
                    : float_arithmetic(op, to_double(a), to_double(b));
  }
  if (auto value = sequence_arithmetic(runtime, op, a, b)) return *value;
  unsupported_operands(op, a, b);
}

Value negate(const Value& value) {
  require_defined(value);
  if (auto* d = value.get<double>()) return Value::real(-*d);
  Integer storage = 0, result = 0;
  const Integer* n = integer_or_bool(value, storage);
  if (!n) fail(std::string("bad operand type for unary -: '") + type_name(value) + "'");
  if (__builtin_sub_overflow(Integer{0}, *n, &result)) overflow();
  return Value::integer(result);
}

Value unary_plus(const Value& value) {
  require_defined(value);
  if (value.get<double>()) return value;
  Integer storage = 0;
  const Integer* n = integer_or_bool(value, storage);
  if (!n) fail(std::string("bad operand type for unary +: '") + type_name(value) + "'");
  return Value::integer(*n);
}

}  // namespace bp::text::jinja

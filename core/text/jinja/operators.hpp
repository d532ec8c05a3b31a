#pragma once
// Python's operators, attribute and item access, and iteration over values. Failures raise.

#include <cstddef>
#include <optional>
#include <vector>

#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

class Runtime;

enum class ArithmeticOp { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

Value arithmetic(Runtime& runtime, ArithmeticOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value unary_plus(const Value& value);

bool equal(Runtime& runtime, const Value& a, const Value& b);
bool less(Runtime& runtime, const Value& a, const Value& b, const char* op = "<");
bool contains(Runtime& runtime, const Value& container, const Value& item);
bool compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b);

// `value.name` and `value[key]`: attributes and items, in the order of preference of each form.
Value get_attribute(Runtime& runtime, const Value& value, const Text& name);
Value get_item(Runtime& runtime, const Value& value, const Value& key);
// Attributes only, never items.
std::optional<Value> find_attribute(Runtime& runtime, const Value& value, const Text& name);
// `value` followed along "a.b.0", the attribute argument of filters; an integer is one item.
Value get_path(Runtime& runtime, const Value& value, const Value& path);
Value get_slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                const Value& step);

std::optional<size_t> try_length(const Value& value);
size_t length(const Value& value);
bool is_iterable(const Value& value);
// The items one by one; consumes an Iterator.
std::vector<Value> iterate(Runtime& runtime, const Value& value);

// Checked: integers beyond 128 bits are refused.
Integer checked_pow(Integer base, Integer exponent);
Integer floor_divide(Integer a, Integer b);

}  // namespace bp::text::jinja

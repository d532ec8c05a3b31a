// Equality, order and membership.

#include <algorithm>
#include <string>

#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

bool numbers_equal(const Value& a, const Value& b) {
  Integer sa = 0, sb = 0;
  const Integer* ia = integer_or_bool(a, sa);
  const Integer* ib = integer_or_bool(b, sb);
  return ia && ib ? *ia == *ib : to_double(a) == to_double(b);
}

bool items_equal(Runtime& runtime, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!equal(runtime, a[i], b[i])) return false;
  }
  return true;
}

bool dicts_equal(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = runtime.find(b, key);
    if (!other || !equal(runtime, value, *other)) return false;
  }
  return true;
}

[[noreturn]] void not_ordered(const Value& a, const Value& b, const char* op) {
  fail(std::string("'") + op + "' not supported between instances of '" + type_name(a) + "' and '" +
       type_name(b) + "'");
}

bool range_contains(const Range& range, const Value& item) {
  Integer storage = 0;
  const Integer* n = integer_or_bool(item, storage);
  if (!n || range.length == 0) return false;
  const bool inside =
      range.step > 0 ? *n >= range.begin && *n < range.end : *n <= range.begin && *n > range.end;
  return inside && (*n - range.begin) % range.step == 0;
}

}  // namespace

bool equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.spend();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (is_number(a) || is_number(b)) return is_number(a) && is_number(b) && numbers_equal(a, b);
  if (auto* ta = a.get<Text>(), *tb = b.get<Text>(); ta || tb) {
    if (!ta || !tb) return false;
    runtime.spend_bytes(ta->str().size() == tb->str().size() ? ta->str().size() : 0);
    return ta->str() == tb->str();
  }
  if (a.any_object() == b.any_object()) return true;
  Runtime::Level level(runtime);
  if (auto* x = a.object<List>(), *y = b.object<List>(); x && y) {
    return items_equal(runtime, x->items, y->items);
  }
  if (auto* x = a.object<Tuple>(), *y = b.object<Tuple>(); x && y) {
    return items_equal(runtime, x->items, y->items);
  }
  if (auto* x = a.object<Dict>(), *y = b.object<Dict>(); x && y) {
    return dicts_equal(runtime, *x, *y);
  }
  if (auto* x = a.object<Range>(), *y = b.object<Range>(); x && y) {
    return x->length == y->length && (x->length == 0 || x->begin == y->begin) &&
           (x->length < 2 || x->step == y->step);
  }
  return false;
}

bool less(Runtime& runtime, const Value& a, const Value& b, const char* op) {
  runtime.spend();
  require_defined(a);
  require_defined(b);
  if (is_number(a) && is_number(b)) {
    Integer sa = 0, sb = 0;
    const Integer* ia = integer_or_bool(a, sa);
    const Integer* ib = integer_or_bool(b, sb);
    return ia && ib ? *ia < *ib : to_double(a) < to_double(b);
  }
  if (auto* ta = a.get<Text>(), *tb = b.get<Text>(); ta && tb) {
    runtime.spend_bytes(std::min(ta->str().size(), tb->str().size()));
    return ta->str() < tb->str();  // UTF-8 sorts as code points do
  }
  const auto *x = sequence_items(a), *y = sequence_items(b);
  if (!x || !y || a.any_object()->kind != b.any_object()->kind) not_ordered(a, b, op);
  Runtime::Level level(runtime);
  for (size_t i = 0; i < x->size() && i < y->size(); ++i) {
    if (!equal(runtime, (*x)[i], (*y)[i])) return less(runtime, (*x)[i], (*y)[i], op);
  }
  return x->size() < y->size();
}

bool contains(Runtime& runtime, const Value& container, const Value& item) {
  if (auto* text = container.get<Text>()) {
    require_defined(item);
    auto* part = item.get<Text>();
    if (!part) {
      fail(std::string("'in <string>' requires string as left operand, not ") + type_name(item));
    }
    runtime.spend_bytes(text->str().size() * 4);
    return find_first(text->str(), part->str()) != std::string::npos;
  }
  if (auto* dict = container.object<Dict>()) return runtime.find(*dict, item) != nullptr;
  if (auto* view = container.object<DictView>(); view && view->part == DictView::Part::kKeys) {
    return runtime.find(*view->dict, item) != nullptr;
  }
  if (auto* range = container.object<Range>()) return range_contains(*range, item);
  if (!is_iterable(container)) {
    fail(std::string("argument of type '") + type_name(container) + "' is not iterable");
  }
  const auto holds = [&](const std::vector<Value>& items) {
    return std::any_of(items.begin(), items.end(),
                       [&](const Value& value) { return equal(runtime, value, item); });
  };
  if (auto* items = sequence_items(container)) return holds(*items);
  return holds(iterate(runtime, container));
}

bool compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  const auto unordered = [&] {  // NaN is neither less, equal nor greater
    return is_number(a) && is_number(b) &&
           (to_double(a) != to_double(a) || to_double(b) != to_double(b));
  };
  switch (op) {
    case CompareOp::kEq:
      return equal(runtime, a, b);
    case CompareOp::kNe:
      return !equal(runtime, a, b);
    case CompareOp::kLt:
      return less(runtime, a, b, "<");
    case CompareOp::kGt:
      return less(runtime, b, a, ">");
    case CompareOp::kLe:
      return !less(runtime, b, a, "<=") && !unordered();
    case CompareOp::kGe:
      return !less(runtime, a, b, ">=") && !unordered();
    case CompareOp::kIn:
      return contains(runtime, b, a);
    case CompareOp::kNotIn:
      return !contains(runtime, b, a);
  }
  return false;
}

}  // namespace bp::text::jinja

// Filters on sequences and mappings.

#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

Value empty_sequence(const char* message) {
  return Value::undefined(Text(message), "");
}

Value attr(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Text name = to_text(runtime, args.at(0));
  require_defined(self);
  if (auto found = find_attribute(runtime, self, name)) return *found;
  return Value::undefined(name, type_name(self));
}

Value batch(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Integer size = args.integer(0, 1);
  std::vector<Value> rows;
  List* row = nullptr;
  const auto is_full = [&] { return static_cast<Integer>(row->items.size()) == size; };
  for (Value& item : iterate(runtime, self)) {
    if (!row || is_full()) rows.push_back(row = runtime.list());
    runtime.append(*row, std::move(item));
  }
  const auto missing = row ? size - static_cast<Integer>(row->items.size()) : 0;
  for (Integer i = 0; i < missing && !args.is_none(1); ++i) runtime.append(*row, args.at(1));
  return runtime.iterator(std::move(rows));
}

Value default_filter(Runtime& runtime, const Value& self, BoundArguments& args) {
  if (!self.is_undefined() && !(args.flag(1, false) && !truthy(self))) return self;
  return args.find(0) ? args.at(0) : runtime.text("");
}

Value first(Runtime& runtime, const Value& self, BoundArguments&) {
  if (auto* iterator = self.object<Iterator>()) {
    if (iterator->next < iterator->items.size()) return iterator->items[iterator->next++];
    return empty_sequence("No first item, sequence was empty.");
  }
  if (self.get<Text>() || sequence_items(self)) {
    if (length(self) > 0) return get_item(runtime, self, Value::integer(0));
    return empty_sequence("No first item, sequence was empty.");
  }
  const auto items = iterate(runtime, self);
  return items.empty() ? empty_sequence("No first item, sequence was empty.") : items.front();
}

Value items_filter(Runtime& runtime, const Value& self, BoundArguments&) {
  if (self.is_undefined()) return runtime.iterator({});
  auto* dict = self.object<Dict>();
  if (!dict) fail("Can only get item pairs from a mapping.");
  DictView view(dict, DictView::Part::kItems);
  return runtime.iterator(iterate(runtime, Value(&view)));
}

Value last(Runtime& runtime, const Value& self, BoundArguments&) {
  if (self.object<Iterator>()) fail("'generator' object is not reversible");
  if (auto* items = sequence_items(self); items && !items->empty()) return items->back();
  const auto items = iterate(runtime, self);
  return items.empty() ? empty_sequence("No last item, sequence was empty.") : items.back();
}

Value length_filter(Runtime& runtime, const Value& self, BoundArguments&) {
  if (auto* text = self.get<Text>()) runtime.spend_bytes(text->str().size());
  return Value::integer(static_cast<Integer>(length(self)));
}

Value list_filter(Runtime& runtime, const Value& self, BoundArguments&) {
  return runtime.list(iterate(runtime, self));
}

Value reverse(Runtime& runtime, const Value& self, BoundArguments&) {
  if (auto* text = self.get<Text>()) {
    const std::u32string characters = decode(text->str());
    runtime.spend_characters(text->str().size());
    return runtime.text(encode(std::u32string(characters.rbegin(), characters.rend())),
                        text->markup());
  }
  auto items = iterate(runtime, self);
  std::vector<Value> reversed(items.rbegin(), items.rend());
  if (self.object<Iterator>()) return runtime.list(std::move(reversed));
  return runtime.iterator(std::move(reversed),
                          self.object<List>() ? "list_reverseiterator" : "reversed");
}

Value slice(Runtime& runtime, const Value& self, BoundArguments& args) {
  const auto items = iterate(runtime, self);
  const Integer wanted = args.integer(0, 1);
  if (wanted == 0) fail("integer division or modulo by zero");
  if (wanted < 0) return runtime.iterator({});
  if (wanted > 100'000) fail("slice: too many slices");
  const auto n = static_cast<size_t>(wanted);
  const size_t each = items.size() / n, with_extra = items.size() % n;
  std::vector<Value> rows;
  auto next = items.begin();
  for (size_t i = 0; i < n; ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(each + (i < with_extra ? 1 : 0));
    std::vector<Value> row(next, end);
    next = end;
    if (!args.is_none(1) && i >= with_extra) row.push_back(args.at(1));
    rows.push_back(runtime.list(std::move(row)));
  }
  return runtime.iterator(std::move(rows));
}

Value sum(Runtime& runtime, const Value& self, BoundArguments& args) {
  Value total = args.find(1) ? args.at(1) : Value::integer(0);
  for (Value item : iterate(runtime, self)) {
    if (!args.is_none(0)) item = get_path(runtime, item, args.at(0));
    total = arithmetic(runtime, ArithmeticOp::kAdd, total, item);
  }
  return total;
}

constexpr Builtin kFilters[] = {
    {"attr", attr, "name", 1},
    {"batch", batch, "linecount fill_with", 1},
    {"count", length_filter},
    {"d", default_filter, "default_value boolean"},
    {"default", default_filter, "default_value boolean"},
    {"first", first},
    {"items", items_filter},
    {"last", last},
    {"length", length_filter},
    {"list", list_filter},
    {"reverse", reverse},
    {"slice", slice, "slices fill_with", 1},
    {"sum", sum, "attribute start"},
};
static_assert(is_sorted_table(kFilters));

}  // namespace

std::span<const Builtin> sequence_filters() {
  return kFilters;
}

}  // namespace bp::text::jinja

// Methods of list, tuple, dict, range, loop and cycler. Lists and dicts change in place as in
// Python; all of them belong to one render, so no change outlives it.

#include <algorithm>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/loop.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"

namespace bp::text::jinja {
namespace {

// Position of `item`, or the length.
size_t position_of(Runtime& runtime, const std::vector<Value>& items, const Value& item) {
  size_t i = 0;
  while (i < items.size() && !equal(runtime, items[i], item)) ++i;
  return i;
}

Value sequence_count(Runtime& runtime, const Value& self, BoundArguments& args) {
  Integer n = 0;
  for (const Value& item : iterate(runtime, self)) n += equal(runtime, item, args.at(0)) ? 1 : 0;
  return Value::integer(n);
}

Value sequence_index(Runtime& runtime, const Value& self, BoundArguments& args) {
  const auto items = iterate(runtime, self);
  const size_t i = position_of(runtime, items, args.at(0));
  if (i == items.size()) fail(to_repr(runtime, args.at(0)) + " is not in the sequence");
  return Value::integer(static_cast<Integer>(i));
}

Value list_append(Runtime& runtime, const Value& self, BoundArguments& args) {
  runtime.append(*self.object<List>(), args.at(0));
  return Value::none();
}
Value list_clear(Runtime&, const Value& self, BoundArguments&) {
  self.object<List>()->items.clear();
  return Value::none();
}
Value list_copy(Runtime& runtime, const Value& self, BoundArguments&) {
  return runtime.list(self.object<List>()->items);
}
Value list_extend(Runtime& runtime, const Value& self, BoundArguments& args) {
  for (Value& item : iterate(runtime, args.at(0))) {
    runtime.append(*self.object<List>(), std::move(item));
  }
  return Value::none();
}
Value list_insert(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto& items = self.object<List>()->items;
  const auto n = static_cast<Integer>(items.size());
  const Integer at = args.integer(0, 0);
  const Integer index = std::clamp<Integer>(at < 0 ? at + n : at, 0, n);
  runtime.append(*self.object<List>(), args.at(1));
  runtime.spend(items.size() / 16);
  std::rotate(items.begin() + static_cast<std::ptrdiff_t>(index), items.end() - 1, items.end());
  return Value::none();
}
Value list_pop(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto& items = self.object<List>()->items;
  const auto n = static_cast<Integer>(items.size());
  const Integer at = args.integer(0, -1);
  const Integer index = at < 0 ? at + n : at;
  if (n == 0) fail("pop from empty list");
  if (index < 0 || index >= n) fail("pop index out of range");
  runtime.spend(items.size() / 16);
  const auto where = items.begin() + static_cast<std::ptrdiff_t>(index);
  Value item = std::move(*where);
  items.erase(where);
  return item;
}
Value list_remove(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto& items = self.object<List>()->items;
  const size_t i = position_of(runtime, items, args.at(0));
  if (i == items.size()) fail("list.remove(x): x not in list");
  runtime.spend(items.size() / 16);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
  return Value::none();
}
Value list_reverse(Runtime& runtime, const Value& self, BoundArguments&) {
  auto& items = self.object<List>()->items;
  runtime.spend(items.size());
  std::reverse(items.begin(), items.end());
  return Value::none();
}
Value list_sort(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto& items = self.object<List>()->items;
  const bool reverse = args.flag(0, false);
  std::stable_sort(items.begin(), items.end(), [&](const Value& a, const Value& b) {
    return reverse ? less(runtime, b, a) : less(runtime, a, b);
  });
  return Value::none();
}

Value dict_clear(Runtime&, const Value& self, BoundArguments&) {
  self.object<Dict>()->clear();
  return Value::none();
}
Value dict_copy(Runtime& runtime, const Value& self, BoundArguments&) {
  Dict* copy = runtime.dict();
  for (const auto& [key, value] : self.object<Dict>()->entries()) runtime.set(*copy, key, value);
  return copy;
}
Value dict_get(Runtime& runtime, const Value& self, BoundArguments& args) {
  const Value* found = runtime.find(*self.object<Dict>(), args.at(0));
  return found ? *found : args.find(1) ? args.at(1) : Value::none();
}
Value dict_items(Runtime& runtime, const Value& self, BoundArguments&) {
  return runtime.make<DictView>(self.object<Dict>(), DictView::Part::kItems);
}
Value dict_keys(Runtime& runtime, const Value& self, BoundArguments&) {
  return runtime.make<DictView>(self.object<Dict>(), DictView::Part::kKeys);
}
Value dict_values(Runtime& runtime, const Value& self, BoundArguments&) {
  return runtime.make<DictView>(self.object<Dict>(), DictView::Part::kValues);
}
Value dict_pop(Runtime& runtime, const Value& self, BoundArguments& args) {
  Dict* dict = self.object<Dict>();
  const Value* found = runtime.find(*dict, args.at(0));
  if (!found && args.find(1)) return args.at(1);
  if (!found) fail(to_repr(runtime, args.at(0)));
  Value value = *found;
  runtime.spend_values(dict->entries().size());
  dict->erase(args.at(0));
  return value;
}
Value dict_popitem(Runtime& runtime, const Value& self, BoundArguments&) {
  Dict* dict = self.object<Dict>();
  if (dict->entries().empty()) fail("popitem(): dictionary is empty");
  auto [key, value] = dict->entries().back();
  runtime.spend_values(dict->entries().size());
  dict->erase(key);
  return runtime.tuple({key, value});
}
Value dict_setdefault(Runtime& runtime, const Value& self, BoundArguments& args) {
  Dict* dict = self.object<Dict>();
  if (const Value* found = runtime.find(*dict, args.at(0))) return *found;
  const Value value = args.find(1) ? args.at(1) : Value::none();
  runtime.set(*dict, args.at(0), value);
  return value;
}
Value dict_update(Runtime& runtime, const Value& self, BoundArguments& args) {
  // `dict(...)` understands the same arguments.
  const Value added = call_builtin(runtime, *find_global("dict"), Value(), std::move(args.rest));
  for (const auto& [key, value] : added.object<Dict>()->entries()) {
    runtime.set(*self.object<Dict>(), key, value);
  }
  return Value::none();
}

Value loop_changed(Runtime& runtime, const Value& self, BoundArguments& args) {
  Loop* loop = self.object<Loop>();
  const Value now = runtime.tuple(std::move(args.rest.positional));
  if (loop->last_changed && equal(runtime, *loop->last_changed, now)) return Value::boolean(false);
  loop->last_changed = now;
  return Value::boolean(true);
}
Value loop_cycle(Runtime&, const Value& self, BoundArguments& args) {
  const auto& items = args.rest.positional;
  if (items.empty()) fail("no items for cycling given");
  return items[self.object<Loop>()->index0 % items.size()];
}

Value cycler_next(Runtime&, const Value& self, BoundArguments&) {
  Cycler* cycler = self.object<Cycler>();
  const size_t i = cycler->position;
  cycler->position = (i + 1) % cycler->items.size();
  return cycler->items[i];
}
Value cycler_reset(Runtime&, const Value& self, BoundArguments&) {
  self.object<Cycler>()->position = 0;
  return Value::none();
}

constexpr Builtin kListMethods[] = {
    {"append", list_append, "object", 1},
    {"clear", list_clear},
    {"copy", list_copy},
    {"count", sequence_count, "value", 1},
    {"extend", list_extend, "iterable", 1},
    {"index", sequence_index, "value", 1},
    {"insert", list_insert, "index object", 2},
    {"pop", list_pop, "index"},
    {"remove", list_remove, "value", 1},
    {"reverse", list_reverse},
    {"sort", list_sort, "reverse"},
};
constexpr Builtin kSequenceMethods[] = {
    {"count", sequence_count, "value", 1},
    {"index", sequence_index, "value", 1},
};
constexpr Builtin kDictMethods[] = {
    {"clear", dict_clear},
    {"copy", dict_copy},
    {"get", dict_get, "key default", 1},
    {"items", dict_items},
    {"keys", dict_keys},
    {"pop", dict_pop, "key default", 1},
    {"popitem", dict_popitem},
    {"setdefault", dict_setdefault, "key default", 1},
    {"update", dict_update, "*"},
    {"values", dict_values},
};
constexpr Builtin kLoopMethods[] = {
    {"changed", loop_changed, "*"},
    {"cycle", loop_cycle, "*"},
};
constexpr Builtin kCyclerMethods[] = {
    {"next", cycler_next},
    {"reset", cycler_reset},
};
static_assert(is_sorted_table(kListMethods) && is_sorted_table(kDictMethods) &&
              is_sorted_table(kSequenceMethods) && is_sorted_table(kLoopMethods) &&
              is_sorted_table(kCyclerMethods));

}  // namespace

std::span<const Builtin> container_methods(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kList:
      return kListMethods;
    case ObjectKind::kTuple:
    case ObjectKind::kRange:
      return kSequenceMethods;
    case ObjectKind::kDict:
      return kDictMethods;
    case ObjectKind::kLoop:
      return kLoopMethods;
    case ObjectKind::kCycler:
      return kCyclerMethods;
    default:
      return {};
  }
}

}  // namespace bp::text::jinja

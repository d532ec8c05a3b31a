// Filters that order, group, select and transform the items of a sequence.

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

Value fold_unless(Runtime& runtime, bool case_sensitive, Value value) {
  auto* text = value.get<Text>();
  if (!text || case_sensitive) return value;
  runtime.spend_characters(text->str().size());
  return runtime.text(to_lower(text->str()));
}

// What an item is compared by: itself, or its attribute.
Value key_of(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute && !attribute->is_none() ? get_path(runtime, item, *attribute) : item;
  return fold_unless(runtime, case_sensitive, std::move(key));
}

struct Keyed {
  Value key, item;
};

std::vector<Value> sorted(Runtime& runtime, std::vector<Keyed> rows, bool reverse) {
  std::stable_sort(rows.begin(), rows.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? less(runtime, b.key, a.key) : less(runtime, a.key, b.key);
  });
  std::vector<Value> items;
  items.reserve(rows.size());
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return items;
}

// "a,b" sorts by a, then by b.
std::vector<Value> split_attributes(Runtime& runtime, const Value* attribute) {
  if (!attribute || attribute->is_none()) return {Value::none()};
  auto* text = attribute->get<Text>();
  if (!text) return {*attribute};
  std::vector<Value> parts;
  std::string_view rest = text->str();
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    parts.push_back(runtime.text(std::string(rest.substr(0, comma))));
    if (comma == rest.size()) return parts;
    rest.remove_prefix(comma + 1);
  }
}

Value sort(Runtime& runtime, const Value& self, BoundArguments& args) {
  const bool case_sensitive = args.flag(1, false);
  const auto attributes = split_attributes(runtime, args.find(2));
  std::vector<Keyed> rows;
  for (Value& item : iterate(runtime, self)) {
    std::vector<Value> keys;
    for (const Value& attribute : attributes) {
      keys.push_back(key_of(runtime, item, &attribute, case_sensitive));
    }
    rows.push_back({runtime.list(std::move(keys)), std::move(item)});
  }
  return runtime.list(sorted(runtime, std::move(rows), args.flag(0, false)));
}

Value dictsort(Runtime& runtime, const Value& self, BoundArguments& args) {
  auto* dict = self.object<Dict>();
  if (!dict) fail(std::string("'") + type_name(self) + "' object has no attribute 'items'");
  const std::string_view by = args.text(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> rows;
  for (const auto& [key, value] : dict->entries()) {
    rows.push_back({fold_unless(runtime, args.flag(0, false), by == "key" ? key : value),
                    runtime.tuple({key, value})});
  }
  return runtime.list(sorted(runtime, std::move(rows), args.flag(2, false)));
}

Value groupby(Runtime& runtime, const Value& self, BoundArguments& args) {
  const bool case_sensitive = args.flag(2, false);
  std::vector<Keyed> rows;
  for (Value& item : iterate(runtime, self)) {
    Value key = get_path(runtime, item, args.at(0));
    if (key.is_undefined() && args.find(1)) key = args.at(1);
    rows.push_back({fold_unless(runtime, case_sensitive, key), runtime.tuple({key, item})});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Keyed& a, const Keyed& b) { return less(runtime, a.key, b.key); });
  std::vector<Value> groups;
  for (size_t i = 0; i < rows.size();) {
    const Value& grouper = rows[i].item.object<Tuple>()->items[0];
    List* members = runtime.list();
    const size_t begin = i;
    for (; i < rows.size() && equal(runtime, rows[i].key, rows[begin].key); ++i) {
      runtime.append(*members, rows[i].item.object<Tuple>()->items[1]);
    }
    if (i == begin) ++i;  // a NaN equals nothing, not even itself
    Tuple* group = runtime.tuple({grouper, members});
    group->is_group = true;
    groups.push_back(group);
  }
  return runtime.list(std::move(groups));
}

Value extreme(Runtime& runtime, const Value& self, BoundArguments& args, bool largest) {
  auto items = iterate(runtime, self);
  if (items.empty()) return Value::undefined(Text("No aggregated item, sequence was empty."), "");
  const bool case_sensitive = args.flag(0, false);
  size_t best = 0;
  Value best_key = key_of(runtime, items[0], args.find(1), case_sensitive);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(runtime, items[i], args.find(1), case_sensitive);
    if (largest ? less(runtime, best_key, key) : less(runtime, key, best_key)) {
      best = i;
      best_key = std::move(key);
    }
  }
  return items[best];
}

Value max(Runtime& runtime, const Value& self, BoundArguments& args) {
  return extreme(runtime, self, args, true);
}
Value min(Runtime& runtime, const Value& self, BoundArguments& args) {
  return extreme(runtime, self, args, false);
}

Value unique(Runtime& runtime, const Value& self, BoundArguments& args) {
  std::map<Value, bool, KeyLess> seen;
  std::vector<Value> kept;
  for (Value& item : iterate(runtime, self)) {
    Value key = key_of(runtime, item, args.find(1), args.flag(0, false));
    runtime.check_key(key, static_cast<size_t>(std::bit_width(seen.size())));
    runtime.spend();
    if (seen.emplace(std::move(key), true).second) kept.push_back(std::move(item));
  }
  return runtime.iterator(std::move(kept));
}

// map('filter', ...) and map(attribute=..., default=...).
Value map_filter(Runtime& runtime, const Value& self, BoundArguments& args) {
  Arguments& given = args.rest;
  std::vector<Value> results;
  if (given.positional.empty()) {
    const Value* attribute = nullptr;
    const Value* fallback = nullptr;
    for (const auto& [name, value] : given.named) {
      if (name.str() == "attribute") {
        attribute = &value;
      } else if (name.str() == "default") {
        fallback = &value;
      } else {
        fail("Unexpected keyword argument '" + name.str() + "'");
      }
    }
    if (!attribute) fail("map requires a filter argument");
    for (const Value& item : iterate(runtime, self)) {
      Value found = get_path(runtime, item, *attribute);
      results.push_back(found.is_undefined() && fallback ? *fallback : std::move(found));
    }
    return runtime.iterator(std::move(results));
  }
  const std::string name = to_str(runtime, given.positional.front());
  const Builtin* filter = find_filter(name);
  if (!filter) fail(missing_filter(name));
  given.positional.erase(given.positional.begin());
  for (const Value& item : iterate(runtime, self)) {
    Runtime::Level level(runtime);
    results.push_back(call_builtin(runtime, *filter, item, given));
  }
  return runtime.iterator(std::move(results));
}

Value select_items(Runtime& runtime, const Value& self, Arguments& given, bool by_attribute,
                   bool keep) {
  if (!truthy(self)) return runtime.iterator({});
  Value attribute = Value::none();
  const auto take_first = [&] {
    Value value = given.positional.front();
    given.positional.erase(given.positional.begin());
    return value;
  };
  if (by_attribute) {
    if (given.positional.empty()) fail("Missing parameter for attribute name");
    attribute = take_first();
  }
  const Builtin* test = nullptr;
  if (!given.positional.empty()) {
    const std::string name = to_str(runtime, take_first());
    test = find_test(name);
    if (!test) fail("No test named '" + name + "'.");
  }
  std::vector<Value> kept;
  for (Value& item : iterate(runtime, self)) {
    Runtime::Level level(runtime);
    const Value subject = get_path(runtime, item, attribute);
    const bool passes = truthy(test ? call_builtin(runtime, *test, subject, given) : subject);
    if (passes == keep) kept.push_back(std::move(item));
  }
  return runtime.iterator(std::move(kept));
}

Value select(Runtime& runtime, const Value& self, BoundArguments& args) {
  return select_items(runtime, self, args.rest, false, true);
}
Value reject(Runtime& runtime, const Value& self, BoundArguments& args) {
  return select_items(runtime, self, args.rest, false, false);
}
Value selectattr(Runtime& runtime, const Value& self, BoundArguments& args) {
  return select_items(runtime, self, args.rest, true, true);
}
Value rejectattr(Runtime& runtime, const Value& self, BoundArguments& args) {
  return select_items(runtime, self, args.rest, true, false);
}

constexpr Builtin kFilters[] = {
    {"dictsort", dictsort, "case_sensitive by reverse"},
    {"groupby", groupby, "attribute default case_sensitive", 1},
    {"map", map_filter, "*"},
    {"max", max, "case_sensitive attribute"},
    {"min", min, "case_sensitive attribute"},
    {"reject", reject, "*"},
    {"rejectattr", rejectattr, "*"},
    {"select", select, "*"},
    {"selectattr", selectattr, "*"},
    {"sort", sort, "reverse case_sensitive attribute"},
    {"unique", unique, "case_sensitive attribute"},
};
static_assert(is_sorted_table(kFilters));

}  // namespace

std::span<const Builtin> selection_filters() {
  return kFilters;
}

}  // namespace bp::text::jinja

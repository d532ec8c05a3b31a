// Attributes, items, slices, length and iteration.

#include <algorithm>
#include <string>

#include "core/text/jinja/builtin.hpp"
#include "core/text/jinja/formatting.hpp"
#include "core/text/jinja/loop.hpp"
#include "core/text/jinja/operators.hpp"
#include "core/text/jinja/runtime.hpp"
#include "core/text/jinja/text_ops.hpp"

namespace bp::text::jinja {
namespace {

// How jinja2 names the type in messages about missing attributes; static storage.
const char* owner_name(const Value& value) {
  if (value.is_none()) return "None";
  if (value.get<bool>()) return "bool object";
  if (value.get<Integer>()) return "int object";
  if (value.get<double>()) return "float object";
  if (value.get<Text>()) return "str object";
  switch (value.any_object()->kind) {
    case ObjectKind::kList:
      return "list object";
    case ObjectKind::kTuple:
      return "tuple object";
    case ObjectKind::kDict:
      return "dict object";
    case ObjectKind::kRange:
      return "range object";
    case ObjectKind::kIterator:
      return "generator object";
    case ObjectKind::kDictView:
      return "dict view object";
    case ObjectKind::kNamespace:
      return "jinja2.utils.Namespace object";
    case ObjectKind::kLoop:
      return "jinja2.runtime.LoopContext object";
    case ObjectKind::kCycler:
      return "jinja2.utils.Cycler object";
    case ObjectKind::kJoiner:
      return "jinja2.utils.Joiner object";
    case ObjectKind::kCallable:
      return "jinja2.runtime.Macro object";
  }
  return "object";
}

Value missing_element(Runtime& runtime, const Value& value, const Value& key) {
  if (auto* name = key.get<Text>()) return Value::undefined(*name, owner_name(value));
  const Value text =
      runtime.text(std::string(owner_name(value)) + " has no element " + to_repr(runtime, key));
  return Value::undefined(*text.get<Text>(), "");
}

Value code_point_at(Runtime& runtime, const Text& text, size_t index) {
  runtime.spend_characters(index);
  const std::string& s = text.str();
  const size_t begin = byte_offset(s, index);
  return runtime.text(s.substr(begin, utf8_length(static_cast<unsigned char>(s[begin]))),
                      text.markup());
}

Value range_item(const Range& range, size_t i) {
  return Value::integer(range.begin + static_cast<Integer>(i) * range.step);
}

// Subscription as Python does it, without the fall-back to attributes.
std::optional<Value> subscript(Runtime& runtime, const Value& value, const Value& key) {
  if (auto* dict = value.object<Dict>()) {
    const Value* found = runtime.find(*dict, key);
    return found ? std::optional(*found) : std::nullopt;
  }
  Integer storage = 0;
  const Integer* n = integer_or_bool(key, storage);
  const bool indexable = value.get<Text>() || sequence_items(value) || value.object<Range>();
  if (!n || !indexable) return std::nullopt;
  if (auto* text = value.get<Text>()) runtime.spend_bytes(text->str().size());
  const auto count = static_cast<Integer>(length(value));
  const Integer index = *n < 0 ? *n + count : *n;
  if (index < 0 || index >= count) return std::nullopt;
  const auto i = static_cast<size_t>(index);
  if (auto* items = sequence_items(value)) return (*items)[i];
  if (auto* range = value.object<Range>()) return range_item(*range, i);
  return code_point_at(runtime, *value.get<Text>(), i);
}

Integer slice_bound(const Value& bound, Integer count, Integer low, Integer high,
                    Integer fallback) {
  if (bound.is_none()) return fallback;
  Integer storage = 0;
  const Integer* n = integer_or_bool(bound, storage);
  if (!n) fail("slice indices must be integers or None or have an __index__ method");
  return std::clamp(*n < 0 ? *n + count : *n, low, high);
}

struct SliceRange {
  Integer start, stop, step;
  size_t count;
};

SliceRange resolve_slice(Integer n, const Value& start, const Value& stop, const Value& step) {
  SliceRange range{0, 0, 1, 0};
  if (!step.is_none()) {
    Integer storage = 0;
    const Integer* given = integer_or_bool(step, storage);
    if (!given) fail("slice indices must be integers or None or have an __index__ method");
    if (*given == 0) fail("slice step cannot be zero");
    range.step = std::clamp(*given, -n - 1, n + 1);
  }
  const bool forward = range.step > 0;
  const Integer low = forward ? 0 : -1, high = forward ? n : n - 1;
  range.start = slice_bound(start, n, low, high, forward ? low : high);
  range.stop = slice_bound(stop, n, low, high, forward ? high : low);
  const Integer span = forward ? range.stop - range.start : range.start - range.stop;
  const Integer stride = forward ? range.step : -range.step;
  if (span > 0) range.count = static_cast<size_t>((span + stride - 1) / stride);
  return range;
}

template <class Container>
Container take_slice(const Container& items, const SliceRange& range) {
  Container out;
  out.reserve(range.count);
  Integer at = range.start;
  for (size_t i = 0; i < range.count; ++i, at += range.step) {
    out.push_back(items[static_cast<size_t>(at)]);
  }
  return out;
}

Value slice_text(Runtime& runtime, const Text& text, const SliceRange& range) {
  const std::string& s = text.str();
  runtime.spend_characters(s.size());
  if (range.count == 0) return runtime.text("", text.markup());
  if (range.step == 1) {
    const size_t begin = byte_offset(s, static_cast<size_t>(range.start));
    const std::string_view rest = std::string_view(s).substr(begin);
    return runtime.text(std::string(rest.substr(0, byte_offset(rest, range.count))), text.markup());
  }
  if (is_ascii(s)) return runtime.text(take_slice(s, range), text.markup());
  return runtime.text(encode(take_slice(decode(s), range)), text.markup());
}

std::vector<Value> iterate_text(Runtime& runtime, const Text& text) {
  const std::string& s = text.str();
  std::vector<Value> out;
  for (size_t i = 0; i < s.size();) {
    const size_t n = utf8_length(static_cast<unsigned char>(s[i]));
    out.push_back(runtime.text(s.substr(i, n), text.markup()));
    i += n;
  }
  return out;
}

std::vector<Value> iterate_view(Runtime& runtime, const Dict& dict, DictView::Part part) {
  std::vector<Value> out;
  out.reserve(dict.entries().size());
  for (const auto& [key, value] : dict.entries()) {
    switch (part) {
      case DictView::Part::kKeys:
        out.push_back(key);
        break;
      case DictView::Part::kValues:
        out.push_back(value);
        break;
      case DictView::Part::kItems:
        out.push_back(runtime.tuple({key, value}));
        break;
    }
  }
  return out;
}

std::vector<Value> consume(Iterator& iterator) {
  std::vector<Value> out(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                         iterator.items.end());
  iterator.next = iterator.items.size();
  return out;
}

}  // namespace

std::optional<Value> find_attribute(Runtime& runtime, const Value& value, const Text& name) {
  if (const Builtin* method = find_method(value, name.str())) {
    return Value(runtime.make<BoundBuiltin>(method, value));
  }
  if (auto* ns = value.object<Namespace>()) {
    const Value* found = runtime.find(*ns->attributes, name.str());
    return found ? std::optional(*found) : std::nullopt;
  }
  if (auto* loop = value.object<Loop>()) return loop_attribute(*loop, name.str());
  if (auto* cycler = value.object<Cycler>(); cycler && name.str() == "current") {
    return cycler->items[cycler->position];
  }
  if (auto* tuple = value.object<Tuple>(); tuple && tuple->is_group) {
    if (name.str() == "grouper") return tuple->items[0];
    if (name.str() == "list") return tuple->items[1];
  }
  return std::nullopt;
}

Value get_attribute(Runtime& runtime, const Value& value, const Text& name) {
  require_defined(value);
  if (auto found = find_attribute(runtime, value, name)) return *found;
  if (auto* dict = value.object<Dict>()) {
    if (const Value* found = runtime.find(*dict, name.str())) return *found;
  }
  return Value::undefined(name, owner_name(value));
}

Value get_item(Runtime& runtime, const Value& value, const Value& key) {
  require_defined(value);
  if (auto found = subscript(runtime, value, key)) return *found;
  if (auto* name = key.get<Text>()) {
    if (auto found = find_attribute(runtime, value, *name)) return *found;
  }
  return missing_element(runtime, value, key);
}

Value get_path(Runtime& runtime, const Value& value, const Value& path) {
  auto* text = path.get<Text>();
  if (!text) return path.is_none() ? value : get_item(runtime, value, path);
  std::string_view rest = text->str();
  Value found = value;
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool index = !part.empty() && part.size() < 10 &&
                       part.find_first_not_of("0123456789") == std::string_view::npos;
    found = get_item(
        runtime, found,
        index ? Value::integer(std::stoi(std::string(part))) : runtime.text(std::string(part)));
    if (dot == rest.size()) return found;
    rest.remove_prefix(dot + 1);
  }
}

Value get_slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  require_defined(value);
  auto* items = sequence_items(value);
  auto* numbers = value.object<Range>();
  if (!value.get<Text>() && !items && !numbers) {
    fail(std::string("'") + type_name(value) + "' object cannot be sliced");
  }
  const SliceRange range = resolve_slice(static_cast<Integer>(length(value)), start, stop, step);
  if (auto* text = value.get<Text>()) return slice_text(runtime, *text, range);
  if (numbers) {
    // Slices of slices of few items could grow the step beyond all bounds; nothing depends on it.
    constexpr Integer kMaxIdleStep = Integer{1} << 80;
    Integer stride = numbers->step * range.step;
    if (range.count < 2 && (stride > kMaxIdleStep || stride < -kMaxIdleStep)) stride = 1;
    return runtime.make<Range>(numbers->begin + range.start * numbers->step,
                               numbers->begin + range.stop * numbers->step, stride, range.count);
  }
  if (value.object<List>()) return runtime.list(take_slice(*items, range));
  return runtime.tuple(take_slice(*items, range));
}

std::optional<size_t> try_length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (auto* text = value.get<Text>()) return count_code_points(text->str());
  if (auto* items = sequence_items(value)) return items->size();
  if (auto* dict = value.object<Dict>()) return dict->entries().size();
  if (auto* view = value.object<DictView>()) return view->dict->entries().size();
  if (auto* range = value.object<Range>()) return range->length;
  if (auto* loop = value.object<Loop>()) return loop->n;
  return std::nullopt;
}

size_t length(const Value& value) {
  const auto n = try_length(value);
  if (!n) fail(std::string("object of type '") + type_name(value) + "' has no len()");
  return *n;
}

bool is_iterable(const Value& value) {
  return value.get<Text>() || value.object<Iterator>() || try_length(value).has_value();
}

std::vector<Value> iterate(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return {};
  if (auto* text = value.get<Text>()) return iterate_text(runtime, *text);
  if (!is_iterable(value)) fail(std::string("'") + type_name(value) + "' object is not iterable");
  runtime.spend_values(try_length(value).value_or(0));
  if (auto* items = sequence_items(value)) return *items;
  if (auto* dict = value.object<Dict>()) {
    return iterate_view(runtime, *dict, DictView::Part::kKeys);
  }
  if (auto* view = value.object<DictView>()) return iterate_view(runtime, *view->dict, view->part);
  if (auto* iterator = value.object<Iterator>()) return consume(*iterator);
  std::vector<Value> out;
  if (auto* range = value.object<Range>()) {
    runtime.spend(range->length);
    out.reserve(range->length);
    for (size_t i = 0; i < range->length; ++i) out.push_back(range_item(*range, i));
  } else if (auto* loop = value.object<Loop>()) {
    out = loop->items;
  }
  return out;
}

}  // namespace bp::text::jinja

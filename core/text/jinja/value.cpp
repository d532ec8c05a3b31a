#include "core/text/jinja/value.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/runtime.hpp"

namespace bp::text::jinja {
namespace {

constexpr size_t kTextOverhead = 64;  // bytes of a Rep beside its characters

// Numbers sort first, then text, tuples, and everything that has only its identity.
int key_class(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_none()) return 1;
  if (is_number(value)) return 2;
  if (value.get<Text>()) return 3;
  return value.object<Tuple>() ? 4 : 5;
}

bool number_less(const Value& a, const Value& b) {
  Integer sa, sb;
  const Integer* ia = integer_or_bool(a, sa);
  const Integer* ib = integer_or_bool(b, sb);
  if (ia && ib) return *ia < *ib;
  const double da = to_double(a), db = to_double(b);
  if (std::isnan(da) || std::isnan(db)) return std::isnan(da) && !std::isnan(db);
  return da < db;
}

// Below, at or above zero, as of std::string's.
int compare_keys(const Value& a, const Value& b);

int compare_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (const int order = compare_keys(a[i], b[i]); order != 0) return order;
  }
  return (a.size() > b.size()) - (a.size() < b.size());
}

int compare_keys(const Value& a, const Value& b) {
  const int ca = key_class(a), cb = key_class(b);
  if (ca != cb) return ca - cb;
  switch (ca) {
    case 2:
      return number_less(b, a) - number_less(a, b);
    case 3:
      return a.get<Text>()->str().compare(b.get<Text>()->str());
    case 4:
      return compare_items(a.object<Tuple>()->items, b.object<Tuple>()->items);
    case 5: {
      const std::less<Object*> less;
      Object *const x = a.any_object(), *const y = b.any_object();
      return less(y, x) - less(x, y);
    }
    default:
      return 0;
  }
}

}  // namespace

Text::Rep::Rep(std::string text, bool is_markup, MemoryMeter* m)
    : utf8(std::move(text)), markup(is_markup), meter(nullptr) {
  if (m) m->add(utf8.capacity() + kTextOverhead);
  meter = m;
}
Text::Rep::~Rep() {
  if (meter) meter->release(utf8.capacity() + kTextOverhead);
}

Text::Text(std::string utf8, bool markup, MemoryMeter* meter)
    : rep_(std::make_shared<const Rep>(std::move(utf8), markup, meter)) {}

const std::string& Text::str() const {
  static const std::string empty;
  return rep_ ? rep_->utf8 : empty;
}

Value::Value() = default;
Value::Value(Text text) : data_(std::move(text)) {}
Value::Value(Object* object) : data_(object) {}
template <class T>
Value::Value(std::in_place_type_t<T> type, T value) : data_(type, std::move(value)) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value Value::none() {
  return {std::in_place_type<None>, None{}};
}
Value Value::boolean(bool b) {
  return {std::in_place_type<bool>, b};
}
Value Value::integer(Integer n) {
  return {std::in_place_type<Integer>, n};
}
Value Value::real(double d) {
  return {std::in_place_type<double>, d};
}
Value Value::undefined(Text name, const char* owner) {
  return {std::in_place_type<Undefined>, Undefined{owner, std::move(name)}};
}

bool KeyLess::operator()(const Value& a, const Value& b) const {
  return compare_keys(a, b) < 0;
}

size_t Dict::position(const Value& key) const {
  if (!index_.empty()) {
    auto it = index_.find(key);
    return it == index_.end() ? entries_.size() : it->second;
  }
  auto it = std::find_if(entries_.begin(), entries_.end(),
                         [&](const auto& entry) { return compare_keys(entry.first, key) == 0; });
  return static_cast<size_t>(it - entries_.begin());
}

const Value* Dict::find(const Value& key) const {
  const size_t i = position(key);
  return i == entries_.size() ? nullptr : &entries_[i].second;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find(Value(Text(std::string(key))));
  for (const auto& [k, v] : entries_) {
    if (const Text* text = k.get<Text>(); text && text->str() == key) return &v;
  }
  return nullptr;
}

size_t Dict::n_compared() const {
  return index_.empty() ? entries_.size() : static_cast<size_t>(std::bit_width(index_.size()));
}

bool Dict::set(Value key, Value value) {
  const size_t i = position(key);
  if (i < entries_.size()) {
    entries_[i].second = std::move(value);
    return false;
  }
  if (!index_.empty()) index_.emplace(key, i);
  entries_.emplace_back(std::move(key), std::move(value));
  if (index_.empty() && entries_.size() >= kIndexFrom) build_index();
  return true;
}

void Dict::erase(const Value& key) {
  const size_t i = position(key);
  if (i == entries_.size()) return;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  if (entries_.size() < kIndexFrom) return index_.clear();
  index_.erase(key);
  if (i == entries_.size()) return;
  for (auto& [indexed, at] : index_) at -= at > i ? 1 : 0;
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
}

void Dict::build_index() {
  for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(entries_[i].first, i);
}

const char* type_name(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "NoneType";
  if (value.get<bool>()) return "bool";
  if (value.get<Integer>()) return "int";
  if (value.get<double>()) return "float";
  if (const Text* text = value.get<Text>()) return text->markup() ? "Markup" : "str";
  switch (value.any_object()->kind) {
    case ObjectKind::kList:
      return "list";
    case ObjectKind::kTuple:
      return "tuple";
    case ObjectKind::kDict:
      return "dict";
    case ObjectKind::kDictView:
      switch (value.object<DictView>()->part) {
        case DictView::Part::kKeys:
          return "dict_keys";
        case DictView::Part::kValues:
          return "dict_values";
        case DictView::Part::kItems:
          return "dict_items";
      }
      break;
    case ObjectKind::kRange:
      return "range";
    case ObjectKind::kIterator:
      return value.object<Iterator>()->type_name;
    case ObjectKind::kNamespace:
      return "Namespace";
    case ObjectKind::kLoop:
      return "LoopContext";
    case ObjectKind::kCycler:
      return "Cycler";
    case ObjectKind::kJoiner:
      return "Joiner";
    case ObjectKind::kCallable:
      return "function";
  }
  return "object";
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (auto* b = value.get<bool>()) return *b;
  if (auto* n = value.get<Integer>()) return *n != 0;
  if (auto* d = value.get<double>()) return *d != 0;
  if (auto* text = value.get<Text>()) return !text->str().empty();
  if (auto* items = sequence_items(value)) return !items->empty();
  if (auto* dict = value.object<Dict>()) return !dict->entries().empty();
  if (auto* view = value.object<DictView>()) return !view->dict->entries().empty();
  if (auto* range = value.object<Range>()) return range->length != 0;
  return true;
}

const Integer* integer_or_bool(const Value& value, Integer& storage) {
  if (auto* n = value.get<Integer>()) return n;
  auto* b = value.get<bool>();
  if (!b) return nullptr;
  storage = *b ? 1 : 0;
  return &storage;
}

bool is_number(const Value& value) {
  return value.get<Integer>() || value.get<bool>() || value.get<double>();
}

double to_double(const Value& number) {
  if (auto* d = number.get<double>()) return *d;
  Integer storage = 0;
  const Integer* n = integer_or_bool(number, storage);
  return n ? static_cast<double>(*n) : 0.0;
}

const std::vector<Value>* sequence_items(const Value& value) {
  if (auto* list = value.object<List>()) return &list->items;
  if (auto* tuple = value.object<Tuple>()) return &tuple->items;
  return nullptr;
}

std::string undefined_message(const Undefined& undefined) {
  const std::string& name = undefined.name.str();
  if (!undefined.owner) return "'" + name + "' is undefined";
  if (!*undefined.owner) return name;
  return std::string("'") + undefined.owner + "' has no attribute '" + name + "'";
}

void require_defined(const Value& value) {
  if (auto* undefined = value.get<Undefined>()) fail(undefined_message(*undefined));
}

}  // namespace bp::text::jinja

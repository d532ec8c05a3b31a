#pragma once
// Values of the template language, with Python's semantics. Scalars and text are held by value;
// containers are Objects owned by the Heap of one render, so that cycles and deep nesting need
// neither reference counts nor recursive destructors.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace bp::text::jinja {

__extension__ typedef __int128 Integer;  // holds every JSON integer

class MemoryMeter;

// Immutable, shared UTF-8. `markup` marks text that went through `safe` or `escape`.
class Text {
 public:
  Text() = default;
  explicit Text(std::string utf8, bool markup = false, MemoryMeter* meter = nullptr);

  const std::string& str() const;
  bool markup() const { return rep_ && rep_->markup; }
  bool same(const Text& other) const { return rep_ == other.rep_; }

 private:
  struct Rep {
    Rep(std::string text, bool is_markup, MemoryMeter* m);
    ~Rep();
    Rep(const Rep&) = delete;
    Rep& operator=(const Rep&) = delete;
    std::string utf8;
    bool markup;
    MemoryMeter* meter;
  };
  std::shared_ptr<const Rep> rep_;
};

enum class ObjectKind : uint8_t {
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kLoop,
  kCycler,
  kJoiner,
  kCallable,
};

struct Object {
  explicit Object(ObjectKind k) : kind(k) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  const ObjectKind kind;
};

struct None {};

// Says what was looked for: a variable (no owner), or attribute `name` of a value of type `owner`;
// with an empty owner `name` is the whole explanation.
struct Undefined {
  const char* owner = nullptr;
  Text name;
};

class Value {
 public:
  Value();                // undefined
  Value(Text text);       // NOLINT: implicit
  Value(Object* object);  // NOLINT: implicit
  // Out of line, as all that builds the variant, to keep its code out of every caller.
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  static Value none();
  static Value boolean(bool b);
  static Value integer(Integer n);
  static Value real(double d);
  static Value undefined(Text name, const char* owner = nullptr);

  // The scalar or text of exactly this type, or null.
  template <class T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  // The object of exactly this class, or null.
  template <class T>
  T* object() const {
    auto* object = std::get_if<Object*>(&data_);
    return object && (*object)->kind == T::kKind ? static_cast<T*>(*object) : nullptr;
  }
  Object* any_object() const {
    auto* object = std::get_if<Object*>(&data_);
    return object ? *object : nullptr;
  }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }

 private:
  using Data = std::variant<Undefined, None, bool, Integer, double, Text, Object*>;
  template <class T>
  Value(std::in_place_type_t<T> type, T value);
  Data data_;
};

struct List : Object {
  static constexpr ObjectKind kKind = ObjectKind::kList;
  explicit List(std::vector<Value> v) : Object(kKind), items(std::move(v)) {}
  std::vector<Value> items;
};

struct Tuple : Object {
  static constexpr ObjectKind kKind = ObjectKind::kTuple;
  explicit Tuple(std::vector<Value> v) : Object(kKind), items(std::move(v)) {}
  std::vector<Value> items;
  bool is_group = false;  // of groupby: `grouper` and `list` name its two items
};

// Orders hashable values so that values equal in Python (1, 1.0, true) are equivalent. Looks at
// each item of a tuple once.
struct KeyLess {
  bool operator()(const Value& a, const Value& b) const;
};

// Keeps insertion order. A key must be hashable: see Runtime::check_key.
class Dict : public Object {
 public:
  static constexpr ObjectKind kKind = ObjectKind::kDict;
  Dict() : Object(kKind) {}

  const std::vector<std::pair<Value, Value>>& entries() const { return entries_; }
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // How many keys a look-up compares, about.
  size_t n_compared() const;
  bool set(Value key, Value value);  // whether the key is new
  void erase(const Value& key);
  void clear();

 private:
  static constexpr size_t kIndexFrom = 12;  // fewer entries are searched one by one
  size_t position(const Value& key) const;
  void build_index();

  std::vector<std::pair<Value, Value>> entries_;
  std::map<Value, size_t, KeyLess> index_;  // empty below kIndexFrom entries
};

struct DictView : Object {
  enum class Part { kKeys, kValues, kItems };
  static constexpr ObjectKind kKind = ObjectKind::kDictView;
  DictView(Dict* d, Part p) : Object(kKind), dict(d), part(p) {}
  Dict* dict;
  Part part;
};

struct Range : Object {
  static constexpr ObjectKind kKind = ObjectKind::kRange;
  Range(Integer b, Integer e, Integer s, size_t n)
      : Object(kKind), begin(b), end(e), step(s), length(n) {}
  Integer begin, end, step;
  size_t length;
};

// What Python gives as a generator or iterator: has no length, is always true, is consumed once.
struct Iterator : Object {
  static constexpr ObjectKind kKind = ObjectKind::kIterator;
  Iterator(std::vector<Value> v, const char* type)
      : Object(kKind), items(std::move(v)), type_name(type) {}
  std::vector<Value> items;
  size_t next = 0;
  const char* type_name;
};

struct Namespace : Object {
  static constexpr ObjectKind kKind = ObjectKind::kNamespace;
  explicit Namespace(Dict* d) : Object(kKind), attributes(d) {}
  Dict* attributes;
};

struct Cycler : Object {
  static constexpr ObjectKind kKind = ObjectKind::kCycler;
  explicit Cycler(std::vector<Value> v) : Object(kKind), items(std::move(v)) {}
  std::vector<Value> items;
  size_t position = 0;
};

struct Joiner : Object {
  static constexpr ObjectKind kKind = ObjectKind::kJoiner;
  explicit Joiner(Value s) : Object(kKind), separator(std::move(s)) {}
  Value separator;
  bool used = false;
};

const char* type_name(const Value& value);
bool truthy(const Value& value);
// The numeric value of an int, bool or float; ints and bools as Integer by `as_integer`.
const Integer* integer_or_bool(const Value& value, Integer& storage);
bool is_number(const Value& value);
double to_double(const Value& number);
// The items of a list or tuple, or null.
const std::vector<Value>* sequence_items(const Value& value);
std::string undefined_message(const Undefined& undefined);
// Raises Python's UndefinedError where the value is undefined.
void require_defined(const Value& value);

}  // namespace bp::text::jinja

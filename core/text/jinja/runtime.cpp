#include "core/text/jinja/runtime.hpp"

#include "core/text/utf8.hpp"

namespace bp::text::jinja {
namespace {

constexpr int kMaxKeyNesting = 32;  // of tuples used as keys

// Bytes that comparing a key looks at. Tuples may be shared, so that there are more of them than in
// memory: each visit is paid for.
size_t key_bytes(Runtime& runtime, const Value& key, int budget = kMaxKeyNesting) {
  if (budget == 0) fail("a key is nested too deeply");
  if (const Text* text = key.get<Text>()) return text->str().size();
  if (key.object<List>() || key.object<Dict>()) {
    fail(std::string("unhashable type: '") + type_name(key) + "'");
  }
  const Tuple* tuple = key.object<Tuple>();
  if (!tuple) return 0;
  runtime.spend_values(tuple->items.size());
  size_t bytes = tuple->items.size() * sizeof(Value);
  for (const Value& item : tuple->items) bytes += key_bytes(runtime, item, budget - 1);
  return bytes;
}

}  // namespace

Runtime::Runtime(const RenderOptions& options)
    : options_(options), fuel_(options.fuel), meter_(options.max_memory_bytes) {
  if (options.mark != nullptr) append_utf8(options.mark->character, mark_);
}

Value Runtime::text(std::string utf8, bool markup) {
  check_text_size(utf8.size());
  spend_bytes(utf8.size());
  return Text(std::move(utf8), markup, &meter_);
}

std::string Runtime::cut(std::string_view part) {
  if (options_.mark == nullptr) return std::string(part);
  // What this one stood before is gone.
  while (part.ends_with(mark_)) part.remove_suffix(mark_.size());
  std::string marked;
  size_t at = 0;
  for (const size_t offset : options_.mark->cut_off(part)) {
    spend();
    if (part.substr(0, offset).ends_with(mark_)) continue;
    marked.append(part, at, offset - at);
    marked += mark_;
    at = offset;
  }
  return marked.append(part, at);
}

List* Runtime::list(std::vector<Value> items) {
  spend_values(items.size());
  meter_.add(items.capacity() * sizeof(Value));
  return make<List>(std::move(items));
}

Tuple* Runtime::tuple(std::vector<Value> items) {
  spend_values(items.size());
  meter_.add(items.capacity() * sizeof(Value));
  return make<Tuple>(std::move(items));
}

Iterator* Runtime::iterator(std::vector<Value> items, const char* type) {
  spend_values(items.size());
  meter_.add(items.capacity() * sizeof(Value));
  return make<Iterator>(std::move(items), type);
}

void Runtime::check_key(const Value& key, size_t n) {
  spend_look_up(key_bytes(*this, key), n);
}

const Value* Runtime::find(const Dict& dict, const Value& key) {
  check_key(key, dict.n_compared());
  return dict.find(key);
}

const Value* Runtime::find(const Dict& dict, std::string_view key) {
  spend_look_up(key.size(), dict.n_compared());
  return dict.find(key);
}

void Runtime::set(Dict& dict, Value key, Value value) {
  check_key(key, dict.n_compared());
  spend();
  constexpr size_t kEntryBytes = 4 * sizeof(Value) + 32;  // entry, spare capacity, index node
  if (dict.set(std::move(key), std::move(value))) meter_.add(kEntryBytes);
}

void Runtime::append(List& list, Value value) {
  spend();
  meter_.add(2 * sizeof(Value));  // with the vector's spare capacity
  list.items.push_back(std::move(value));
}

}  // namespace bp::text::jinja

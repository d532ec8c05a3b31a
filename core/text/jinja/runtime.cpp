#include "core/text/jinja/runtime.hpp"

namespace bp::text::jinja {

Runtime::Runtime(const RenderOptions& options)
    : options_(options), fuel_(options.fuel), meter_(options.max_memory_bytes) {}

Value Runtime::text(std::string utf8, bool markup) {
  check_text_size(utf8.size());
  spend_bytes(utf8.size());
  return Text(std::move(utf8), markup, &meter_);
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

void Runtime::set(Dict& dict, Value key, Value value) {
  check_hashable(key);
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

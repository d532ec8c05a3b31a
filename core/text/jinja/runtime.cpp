#include "core/text/jinja/runtime.hpp"

#include "core/text/utf8.hpp"

namespace bp::text::jinja {

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

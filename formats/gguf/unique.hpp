#pragma once
// Duplicates by sorting: n log n whatever the bytes are, where a hash table with a known hash
// function can be made quadratic.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

namespace bp::gguf {

// The index of an element whose key an element before it has; `key` maps an element to a
// comparable.
template <class T, class Key>
[[nodiscard]] std::optional<size_t> find_duplicate(const std::vector<T>& elements, Key key) {
  std::vector<size_t> order(elements.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key_a = key(elements[a]);
    const auto key_b = key(elements[b]);
    return key_a != key_b ? key_a < key_b : a < b;
  });
  const auto same = [&](size_t a, size_t b) { return key(elements[a]) == key(elements[b]); };
  const auto found = std::adjacent_find(order.begin(), order.end(), same);
  if (found == order.end()) return std::nullopt;
  return *(found + 1);
}

}  // namespace bp::gguf

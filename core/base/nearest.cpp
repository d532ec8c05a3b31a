#include "core/base/nearest.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

namespace bp::base {

namespace {

// Damerau-Levenshtein distance with adjacent transpositions; names are short.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;
  if (name.size() > kLongest) return {};
  const std::string* best = nullptr;
  size_t best_distance = std::max<size_t>(1, name.size() / 2) + 1;
  for (const auto& candidate : known) {
    if (candidate.size() > kLongest) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string nearest_suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? std::string() : "; nearest: " + near;
}

std::string nearest_hint(std::string_view name, const std::vector<std::string>& known) {
  if (const std::string near = nearest_suggestion(name, known); !near.empty()) return near;
  constexpr size_t kListed = 12;
  if (known.empty() || known.size() > kListed) return {};
  return fmt::format(" (known: {})", fmt::join(known, ", "));
}

}  // namespace bp::base

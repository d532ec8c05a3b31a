#pragma once
// Choosing candidates without sorting more of them than needed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backplane/best_candidates.hpp"
#include "backplane/sampler.h"
#include "backplane/softmax.hpp"

namespace bp::samplers {

[[nodiscard]] inline bool is_dense(const bp_sample_row& row) {
  return row.n_candidates == 0;
}
[[nodiscard]] inline std::span<bp_candidate> candidates(bp_sample_row& row) {
  return {row.candidates, row.n_candidates};
}
[[nodiscard]] float max_logit(const bp_sample_row& row);

// The dense row becomes sparse: ids with a logit of at least `threshold`, ascending, but -inf
// never.
void gather(bp_sample_row& row, float threshold);
// Likewise, and `rest` gets the weights, e^(logit - max), of all others; `least` is finite. Where
// they are more than about `limit` the row stays and the answer is false.
bool gather_near(bp_sample_row& row, float max, float least, uint32_t limit, ExpEstimate& rest);
// The row, dense or sparse, keeps its k best candidates, best first. k >= 1.
void keep_best(bp_sample_row& row, uint32_t k);
// Moves the fewest items, in the order `before`, whose weights reach `mass` to the front, in any
// order, and answers their number, at least one. Halves what is in question until little is left.
// weight_of: of a span of items together.
template <class Item, class Before, class WeightOf>
size_t select_mass(std::span<Item> items, double mass, Before before, WeightOf weight_of) {
  size_t begin = 0, end = items.size();  // those before begin are in, those from end on are out
  const auto at = [&](size_t i) { return items.begin() + static_cast<ptrdiff_t>(i); };
  while (end - begin > 32) {
    const size_t middle = begin + (end - begin) / 2;
    std::nth_element(at(begin), at(middle), at(end), before);
    const double half = weight_of(items.subspan(begin, middle - begin));
    if (half >= mass) {
      end = middle;
    } else {
      mass -= half;
      begin = middle;
    }
  }
  std::sort(at(begin), at(end), before);
  size_t n = begin;
  for (; n < end && (n == 0 || mass > 0); ++n) mass -= weight_of(items.subspan(n, 1));
  return n;
}

}  // namespace bp::samplers

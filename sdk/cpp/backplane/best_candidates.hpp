#pragma once
// The best of a row of logits, in one pass by vectors.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "backplane/sampler.h"
#include "backplane/softmax.hpp"

namespace bp {

// The order of candidates: greater logit first, then lower id.
[[nodiscard]] inline bool is_better(const bp_candidate& a, const bp_candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Room that best_candidates wants for k of n logits.
[[nodiscard]] inline size_t best_candidates_room(size_t n, size_t k) {
  return std::min(n, std::max<size_t>(2 * k, 256));
}

// Writes the k best of a row without NaN, in any order and maybe others with them, and answers how
// many it wrote. Logits of -inf are no candidates. Candidates gather above a threshold, which
// rises whenever the room is full and cut back to k.
inline size_t best_candidates(std::span<const float> row, size_t k, std::span<bp_candidate> room) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (k == 0) return 0;
  room = room.first(best_candidates_room(row.size(), k));
  size_t n = 0;
  float threshold = -kInfinity;  // a logit equal to it loses to the earlier id
  for (size_t i = 0; i < row.size();) {
    i += skip_outside(row.subspan(i), std::nextafter(threshold, kInfinity), kInfinity);
    for (const size_t end = std::min(i + kSkipBlock, row.size()); i < end; ++i) {
      if (!(row[i] > threshold)) continue;
      room[n++] = {static_cast<int32_t>(i), row[i]};
      if (n < room.size() || n <= k) continue;
      const auto last = room.begin() + static_cast<ptrdiff_t>(k) - 1;
      std::nth_element(room.begin(), last, room.end(), is_better);
      threshold = last->logit;
      n = k;
    }
  }
  return n;
}

}  // namespace bp

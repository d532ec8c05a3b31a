#include "selection.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "backplane/softmax.hpp"

namespace bp::samplers {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMinusInfinity = -kInfinity;

// Best candidates of a dense row in one pass: a buffer above a threshold, which rises whenever the
// buffer is full and cut back to k.
uint32_t collect_best(const bp_sample_row& row, uint32_t k) {
  const uint32_t room = std::min(row.n_vocab, std::max(2 * k, 256u));
  bp_candidate* const best = row.candidates;
  uint32_t n = 0;
  float threshold = kMinusInfinity;
  for (uint32_t id = 0; id < row.n_vocab; ++id) {
    // A logit equal to the threshold loses to the earlier id.
    if (!(row.logits[id] > threshold)) continue;
    best[n++] = {static_cast<int32_t>(id), row.logits[id]};
    if (n < room || n <= k) continue;
    std::nth_element(best, best + k - 1, best + n, better);
    n = k;
    threshold = best[k - 1].logit;
  }
  return n;
}

}  // namespace

float max_logit(const bp_sample_row& row) {
  if (is_dense(row)) {
    return row.greatest != nullptr ? row.logits[*row.greatest] : max_of({row.logits, row.n_vocab});
  }
  if (row.order == BP_ORDER_DESCENDING) return row.candidates[0].logit;
  return std::max_element(row.candidates, row.candidates + row.n_candidates,
                          [](const auto& a, const auto& b) { return a.logit < b.logit; })
      ->logit;
}

bool gather(bp_sample_row& row, float threshold, uint32_t limit) {
  const std::span<const float> logits(row.logits, row.n_vocab);
  const float least = std::max(threshold, std::numeric_limits<float>::lowest());
  uint32_t n = 0;
  for (size_t begin = 0; begin < logits.size();) {
    if (n > limit) return false;
    begin += skip_outside(logits.subspan(begin), least, kInfinity);  // mostly few are that great
    const size_t end = std::min(begin + kSkipBlock, logits.size());
    for (; begin < end; ++begin) {
      row.candidates[n] = {static_cast<int32_t>(begin), logits[begin]};
      n += logits[begin] >= least ? 1 : 0;
    }
  }
  row.n_candidates = n;
  row.order = BP_ORDER_NONE;
  return true;
}

void keep_best(bp_sample_row& row, uint32_t k) {
  if (is_dense(row)) {
    row.n_candidates = collect_best(row, std::min(k, row.n_vocab));
    row.order = BP_ORDER_NONE;
  }
  const uint32_t n = std::min(k, row.n_candidates);
  if (row.order != BP_ORDER_DESCENDING) {
    bp_candidate* const end = row.candidates + row.n_candidates;
    if (n < row.n_candidates) std::nth_element(row.candidates, row.candidates + n, end, better);
    std::sort(row.candidates, row.candidates + n, better);
  }
  row.n_candidates = n;
  row.order = BP_ORDER_DESCENDING;
}

}  // namespace bp::samplers

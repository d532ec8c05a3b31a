#include "selection.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace bp::samplers {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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

namespace {

// skip: where the first block of kSkipBlock logits of a row's rest begins that has some to keep.
template <class Skip>
bool gather_with(bp_sample_row& row, float least, uint32_t limit, Skip skip) {
  const std::span<const float> logits(row.logits, row.n_vocab);
  uint32_t n = 0;
  for (size_t begin = 0; begin < logits.size();) {
    if (n > limit) return false;
    begin += skip(logits.subspan(begin));  // mostly few are that great
    const size_t n_block = std::min(kSkipBlock, logits.size() - begin);
    for_each_from(logits.subspan(begin, n_block), least, [&](size_t i) {
      row.candidates[n++] = {static_cast<int32_t>(begin + i), logits[begin + i]};
    });
    begin += n_block;
  }
  row.n_candidates = n;
  row.order = BP_ORDER_NONE;
  return true;
}

}  // namespace

void gather(bp_sample_row& row, float threshold) {
  const float least = std::max(threshold, std::numeric_limits<float>::lowest());
  gather_with(row, least, row.n_vocab, [least](std::span<const float> logits) {
    return skip_outside(logits, least, kInfinity);
  });
}

bool gather_near(bp_sample_row& row, float max, float least, uint32_t limit, ExpEstimate& rest) {
  return gather_with(row, least, limit, [=, &rest](std::span<const float> logits) {
    return rest.add_until(logits, max, least);
  });
}

void keep_best(bp_sample_row& row, uint32_t k) {
  if (is_dense(row)) {
    const auto n = best_candidates({row.logits, row.n_vocab}, std::min(k, row.n_vocab),
                                   {row.candidates, row.n_vocab});
    row.n_candidates = static_cast<uint32_t>(n);
    row.order = BP_ORDER_NONE;
  }
  const uint32_t n = std::min(k, row.n_candidates);
  if (row.order != BP_ORDER_DESCENDING) {
    bp_candidate* const end = row.candidates + row.n_candidates;
    if (n < row.n_candidates) std::nth_element(row.candidates, row.candidates + n, end, is_better);
    std::sort(row.candidates, row.candidates + n, is_better);
  }
  row.n_candidates = n;
  row.order = BP_ORDER_DESCENDING;
}

}  // namespace bp::samplers

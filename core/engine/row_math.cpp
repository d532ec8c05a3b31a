#include "core/engine/row_math.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backplane/best_candidates.hpp"
#include "backplane/row_draw.hpp"
#include "backplane/softmax.hpp"

namespace bp::engine {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMinusInfinity = -kInfinity;

}  // namespace

int32_t argmax(std::span<const float> row) {
  const float max = max_of(row);
  if (max == kMinusInfinity) return -1;
  const size_t skipped = std::isfinite(max) ? skip_outside(row, max, kInfinity) : 0;
  return static_cast<int32_t>(std::ranges::find(row.subspan(skipped), max) - row.begin());
}

int32_t draw_dense(std::span<const float> row, float max, float scale, double u) {
  return max == kMinusInfinity ? -1 : RowDraw(row, max, kMinusInfinity, scale).at(u);
}

int32_t draw_sparse(std::span<const bp_candidate> candidates, double u) {
  float max = kMinusInfinity;
  for (const bp_candidate& c : candidates) max = std::max(max, c.logit);
  if (max == kMinusInfinity) return -1;
  float weights[kDrawBlock];
  const auto weigh = [&](size_t block) {
    const size_t begin = block * kDrawBlock, n = std::min(kDrawBlock, candidates.size() - begin);
    for (size_t i = 0; i < n; ++i) weights[i] = candidates[begin + i].logit;
    exp_row({weights, n}, max, weights);
    return std::span<const float>(weights, n);
  };
  std::vector<double> sums((candidates.size() + kDrawBlock - 1) / kDrawBlock);
  double total = 0;
  for (size_t block = 0; block < sums.size(); ++block) {
    sums[block] = sum_of(weigh(block));
    total += sums[block];
  }
  while (sums.back() == 0) sums.pop_back();  // the greatest logit's block stays
  return candidates[drawn_index(u * total, sums, weigh)].id;
}

PositionLogprobs logprobs_of(std::span<const float> row, int32_t token, uint32_t n) {
  const float max = max_of(row);
  const double log_sum = static_cast<double>(max) + std::log(sum_exp(row, max));
  std::vector<bp_candidate> best(best_candidates_room(row.size(), n));
  best.resize(best_candidates(row, n, best));
  const auto n_best = static_cast<ptrdiff_t>(std::min<size_t>(n, best.size()));
  std::partial_sort(best.begin(), best.begin() + n_best, best.end(), is_better);
  return logprobs_of({token, row[static_cast<size_t>(token)]}, best, log_sum,
                     static_cast<uint32_t>(std::min<size_t>(n, row.size())));
}

PositionLogprobs logprobs_of(bp_candidate chosen, std::span<const bp_candidate> best,
                             double log_sum, uint32_t n) {
  const auto logprob = [log_sum](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  PositionLogprobs logprobs{{chosen.id, logprob(chosen.logit)}, {}};
  for (const bp_candidate& c : best.first(std::min<size_t>(n, best.size()))) {
    logprobs.top.push_back({c.id, logprob(c.logit)});
  }
  for (int32_t id = 0; logprobs.top.size() < n; ++id) {
    if (std::ranges::find(best, id, &bp_candidate::id) != best.end()) continue;
    logprobs.top.push_back({id, logprob(kMinusInfinity)});
  }
  return logprobs;
}

}  // namespace bp::engine

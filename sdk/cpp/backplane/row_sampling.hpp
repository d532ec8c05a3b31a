#pragma once
// What ext/device_sampling.h asks of a row of logits, in plain code and in double: for backends
// whose rows are in host memory, and what others are compared with.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "backplane/best_candidates.hpp"
#include "backplane/ext/device_sampling.h"

namespace bp {

namespace detail {

inline constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

// All by ascending id, but those of -inf.
[[nodiscard]] inline std::vector<bp_candidate> candidates_of(std::span<const float> row) {
  std::vector<bp_candidate> all;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > kNoLogit) all.push_back({static_cast<int32_t>(i), row[i]});
  }
  return all;
}

inline void keep_best(std::vector<bp_candidate>& candidates, size_t n) {
  n = std::min(n, candidates.size());
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(n);
  std::partial_sort(candidates.begin(), end, candidates.end(), is_better);
  candidates.resize(n);
}

}  // namespace detail

// The lowest index of the greatest value (batch.h, convention 5); -1 where one is NaN or +inf, and
// where all are -inf.
[[nodiscard]] inline int32_t greatest_of(std::span<const float> row) {
  float greatest = detail::kNoLogit;
  int32_t index = -1;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!(row[i] < -detail::kNoLogit)) return -1;
    if (row[i] <= greatest) continue;
    greatest = row[i];
    index = static_cast<int32_t>(i);
  }
  return index;
}

struct WeightedCandidate {
  bp_candidate candidate;
  double weight;
};

// What a draw of convention 4 chooses from, in its order. `greatest` is that of the row.
[[nodiscard]] inline std::vector<WeightedCandidate> drawable(std::span<const float> row,
                                                             float greatest,
                                                             const bp_row_request& request) {
  std::vector<bp_candidate> candidates = detail::candidates_of(row);
  if (request.top_k > 0) detail::keep_best(candidates, request.top_k);
  const float least = greatest + request.floor;
  std::vector<WeightedCandidate> kept;
  for (const bp_candidate& c : candidates) {
    if (c.logit < least) continue;
    kept.push_back({c, std::exp(static_cast<double>((c.logit - greatest) * request.scale))});
  }
  return kept;
}

// -1 where nothing has a weight.
[[nodiscard]] inline int32_t draw(std::span<const WeightedCandidate> kept, double uniform) {
  double total = 0;
  for (const WeightedCandidate& k : kept) total += k.weight;
  double rest = uniform * total;
  int32_t last = -1;
  for (const WeightedCandidate& k : kept) {
    if (k.weight == 0) continue;
    last = k.candidate.id;
    rest -= k.weight;
    if (rest < 0) break;
  }
  return last;
}

[[nodiscard]] inline bp_row_result sample_row(std::span<const float> row,
                                              const bp_row_request& request) {
  bp_row_result result{-1, detail::kNoLogit, detail::kNoLogit, 0, detail::kNoLogit, 0, 0};
  float greatest = detail::kNoLogit;
  for (const float x : row) {
    if (std::isnan(x) || x == -detail::kNoLogit) result.flags = BP_ROW_NO_NUMBERS;
    greatest = std::max(greatest, x);
  }
  if (result.flags != 0) return result;
  if (request.token >= 0) result.given_logit = row[static_cast<size_t>(request.token)];
  if (greatest == detail::kNoLogit) return result;

  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x) - static_cast<double>(greatest));
  result.log_sum = static_cast<double>(greatest) + std::log(sum);
  if (request.choice == BP_CHOOSE_BEST) {
    result.token = static_cast<int32_t>(std::find(row.begin(), row.end(), greatest) - row.begin());
  } else if (request.choice == BP_CHOOSE_DRAW) {
    result.token = draw(drawable(row, greatest, request), request.uniform);
  }
  if (result.token >= 0) result.token_logit = row[static_cast<size_t>(result.token)];
  if (request.n_candidates == 0) return result;
  std::vector<bp_candidate> best = detail::candidates_of(row);
  detail::keep_best(best, request.n_candidates);
  std::copy(best.begin(), best.end(), request.candidates);
  result.n_candidates = static_cast<uint32_t>(best.size());
  return result;
}

}  // namespace bp

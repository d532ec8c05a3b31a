#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

#include "backplane/softmax.hpp"
#include "mass_edge.hpp"
#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Sum of e^(logit - max).
double weight_of(std::span<const bp_candidate> candidates, float max) {
  constexpr size_t kMost = 64;
  float weights[kMost];
  double total = 0;
  while (!candidates.empty()) {
    const auto some = candidates.first(std::min(kMost, candidates.size()));
    for (size_t i = 0; i < some.size(); ++i) weights[i] = some[i].logit;
    exp_row({weights, some.size()}, max, weights);
    total += sum_of({weights, some.size()});
    candidates = candidates.subspan(some.size());
  }
  return total;
}

// Holtzman et al., "The curious case of neural text degeneration" (2019).
class TopP final : public Stage {
 public:
  explicit TopP(double p) : p_(p) {}
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<TopP>(*this);
  }
  Status apply(bp_sample_row& row) override {
    const float max = max_logit(row);
    if (std::isinf(max)) return {};
    if (is_dense(row)) {
      if (!keep_near(row, max)) keep_dense(row, max);
    } else if (const double mass = p_ * weight_of(candidates(row), max);
               row.order == BP_ORDER_DESCENDING) {
      keep_first(row, max, mass);
    } else {
      keep_mass(row, max, mass);
    }
    return {};
  }

 private:
  static size_t select(std::span<bp_candidate> items, float max, double mass) {
    return select_mass(items, mass, is_better,
                       [max](std::span<const bp_candidate> some) { return weight_of(some, max); });
  }

  // The sparse row keeps the fewest candidates that reach `mass`. Of many, only those about where
  // it is reached need an order.
  void keep_mass(bp_sample_row& row, float max, double mass) {
    constexpr size_t kMany = 512;
    const std::span<bp_candidate> all = candidates(row);
    if (all.size() < kMany || all.size() > row.n_vocab / 2) {  // no room for weights
      row.n_candidates = static_cast<uint32_t>(select(all, max, mass));
      return;
    }
    const std::span<float> weights(new (all.data() + all.size()) float[all.size()], all.size());
    for (size_t i = 0; i < all.size(); ++i) weights[i] = all[i].logit;
    exp_row(weights, max, weights.data());
    const Edge edge = find_edge(weights, mass);
    at_edge_.clear();
    size_t n = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const bp_candidate candidate = all[i];
      const bool is_within = weights[i] >= edge.high;
      if (!is_within && weights[i] >= edge.low) at_edge_.push_back(candidate);
      weights[i] = is_within ? weights[i] : 0;
      all[n] = candidate;
      n += is_within ? 1 : 0;
    }
    const size_t n_more = select(at_edge_, max, mass - sum_of(weights));
    std::copy_n(at_edge_.begin(), n_more, all.data() + n);
    row.n_candidates = static_cast<uint32_t>(n + n_more);
  }

  static void keep_first(bp_sample_row& row, float max, double mass) {
    uint32_t n = 0;
    for (; n < row.n_candidates && (n == 0 || mass > 0); ++n) {
      mass -= static_cast<double>(exp_nonpositive(row.candidates[n].logit - max));
    }
    row.n_candidates = n;
  }

  // Where few candidates near the greatest have the mass, as models mostly are; what lies beyond
  // counts as estimated. Else the row stays.
  bool keep_near(bp_sample_row& row, float max) {
    constexpr float kNear = 8;   // logits this far below weigh 1/3000
    constexpr float kWide = 11;  // where the next token is open
    // More would hold too little of the mass, or be dearer to gather than all are to weigh.
    const uint32_t few_near = row.n_vocab / 64, few_wide = row.n_vocab / 8;
    bp_sample_row near = row;
    ExpEstimate rest;
    if (!gather_near(near, max, max - kNear, few_near, rest)) return false;
    const double weight = weight_of(candidates(near), max);
    const double mass = p_ * (weight + rest.sum());
    if (weight < mass) {
      near = row;
      if (!gather(near, max - kWide, few_wide)) return false;
      if (weight_of(candidates(near), max) < mass) return false;
    }
    keep_mass(near, max, mass);
    row = near;
    return true;
  }

  // By a sample of blocks. `rest`: the sum of the weights below the edge, all of them small, so
  // that the sample has its share of them, which cannot be said of the great ones.
  float guess_edge(std::span<const float> weights, double rest) {
    constexpr size_t kEach = 16 * kSkipBlock;
    if (weights.size() < 16 * kEach) return 0;
    sample_.clear();
    for (size_t i = 0; i + kSkipBlock <= weights.size(); i += kEach) {
      const auto block = weights.subspan(i, kSkipBlock);
      sample_.insert(sample_.end(), block.begin(), block.end());
    }
    const double share = static_cast<double>(sample_.size()) / static_cast<double>(weights.size());
    const double mass = sum_of(sample_) - rest * share;
    return mass > 0 ? find_edge(sample_, mass).low : 0;
  }

  // The row stays dense: what is dropped becomes -inf. Only weights about where the mass is reached
  // need an order.
  void keep_dense(bp_sample_row& row, float max) {
    constexpr size_t kWeighed = 1024;  // and summed while they are in the caches
    const std::span<float> logits(row.logits, row.n_vocab);
    const std::span<float> weights(new (row.candidates) float[row.n_vocab], row.n_vocab);
    double total = 0;
    for (size_t begin = 0; begin < logits.size(); begin += kWeighed) {
      const size_t n = std::min(kWeighed, logits.size() - begin);
      exp_row(logits.subspan(begin, n), max, &weights[begin]);
      total += sum_of(weights.subspan(begin, n));
    }
    double mass = p_ * total;
    const Edge edge = find_edge(weights, mass, guess_edge(weights, total - mass));
    at_edge_.clear();
    for (size_t begin = 0; begin < weights.size();) {
      begin += skip_outside(weights.subspan(begin), edge.low, edge.high);
      const size_t end = std::min(begin + kSkipBlock, weights.size());
      for (; begin < end; ++begin) {
        if (weights[begin] < edge.low || weights[begin] >= edge.high) continue;
        at_edge_.push_back({static_cast<int32_t>(begin), logits[begin]});
      }
    }
    mass -= drop_below(logits, weights.data(), edge.low, edge.high);
    const size_t n_kept = select(at_edge_, max, mass);
    for (size_t i = n_kept; i < at_edge_.size(); ++i) {
      logits[static_cast<size_t>(at_edge_[i].id)] = kMinusInfinity;
    }
  }

  double p_;
  std::vector<bp_candidate> at_edge_;
  std::vector<float> sample_;
};

}  // namespace

Result<std::unique_ptr<Stage>> make_top_p(const Params& fields, uint32_t) {
  const double p = fields.get_float("top_p", 1.0);
  if (p >= 1.0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<TopP>(p));
}

}  // namespace bp::samplers

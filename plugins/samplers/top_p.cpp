#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <vector>

#include "backplane/row_draw.hpp"
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
      if (!keep_near(row, max) && !draw(row, max)) keep_dense(row, max);
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
    constexpr float kNear = 8;  // logits this far below weigh 1/3000
    // More would hold too little of the mass, or be dearer to gather than all are to weigh.
    const uint32_t few = row.n_vocab / 64;
    bp_sample_row near = row;
    ExpEstimate rest;
    if (!gather_near(near, max, max - kNear, few, rest)) return false;
    const double weight = weight_of(candidates(near), max);
    const double mass = p_ * (weight + rest.sum());
    if (weight < mass) return false;
    keep_mass(near, max, mass);
    row = near;
    return true;
  }

  // Draws from the whole row until what is drawn is within the mass: mostly at once, and nothing is
  // put in order. Where the draw is not all that follows, or misses, the row stays.
  bool draw(bp_sample_row& row, float max) const {
    constexpr double kLeast = 0.5;  // of p: less is mostly missed
    constexpr uint32_t kDraws = 3;
    if (row.draw_scale == 0 || p_ < kLeast) return false;
    const std::span<const float> logits(row.logits, row.n_vocab);
    const RowDraw from_all(logits, max, max + row.draw_floor, row.draw_scale);
    const double rest = (1 - p_) * from_all.most_mass();
    for (uint32_t i = 0; i < kDraws; ++i) {
      const int32_t token = from_all.at(row.uniform(row.host, i));
      if (!is_within_mass(logits, max, token, rest)) continue;
      row.candidates[0] = {token, logits[static_cast<size_t>(token)]};
      row.n_candidates = 1;
      row.order = BP_ORDER_DESCENDING;
      return true;
    }
    return false;
  }

  // Whether those that come before it have less than the mass: surely where those below it have
  // more than `rest`, which mostly shows long before the row's end.
  [[nodiscard]] bool is_within_mass(std::span<const float> logits, float max, int32_t token,
                                    double rest) const {
    const auto id = static_cast<size_t>(token);
    const float logit = logits[id];
    const MassBelow mass = estimate_below(logits, max, logit, rest);
    if (mass.below > rest) return true;
    const double from = mass.all - mass.below;
    if (from < p_ * mass.all) return true;
    const auto n_rest = std::ranges::count(logits.subspan(id), logit);  // itself and what equals it
    const double weight = static_cast<double>(exp_nonpositive(logit - max));
    return from - static_cast<double>(n_rest) * weight < p_ * mass.all;
  }

  // The row stays dense: what is dropped becomes -inf. Only weights about where the mass is reached
  // need an order.
  void keep_dense(bp_sample_row& row, float max) {
    const std::span<float> logits(row.logits, row.n_vocab);
    const std::span<float> weights(new (row.candidates) float[row.n_vocab], row.n_vocab);
    exp_row(logits, max, weights.data());
    double mass = p_ * sum_of(weights);
    const Edge edge = find_edge(weights, mass);
    at_edge_.clear();
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] >= edge.high) {
        mass -= static_cast<double>(weights[i]);
      } else if (weights[i] < edge.low) {
        logits[i] = kMinusInfinity;
      } else {
        at_edge_.push_back({static_cast<int32_t>(i), logits[i]});
      }
    }
    const size_t n_kept = select(at_edge_, max, mass);
    for (size_t i = n_kept; i < at_edge_.size(); ++i) {
      logits[static_cast<size_t>(at_edge_[i].id)] = kMinusInfinity;
    }
  }

  double p_;
  std::vector<bp_candidate> at_edge_;
};

}  // namespace

Result<std::unique_ptr<Stage>> make_top_p(const Params& fields, uint32_t) {
  const double p = fields.get_float("top_p", 1.0);
  if (p >= 1.0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<TopP>(p));
}

}  // namespace bp::samplers

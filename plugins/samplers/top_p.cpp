#include <algorithm>
#include <cmath>

#include "backplane/softmax.hpp"
#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

auto weight_below(float max) {
  return
      [max](const bp_candidate& c) { return static_cast<double>(exp_nonpositive(c.logit - max)); };
}

double total_weight(bp_sample_row& row, float max) {
  const auto weight = weight_below(max);
  double total = 0;
  for (const bp_candidate& c : candidates(row)) total += weight(c);
  return total;
}

// Weights e^(logit - max) of a dense row, summed by the logit's distance from the greatest.
class MassByDistance {
 public:
  MassByDistance(std::span<const float> logits, float max) : max_(max) {
    float weights[kBlock];
    for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
      const auto block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
      exp_row(block, max, weights);
      for (size_t i = 0; i < block.size(); ++i) {
        mass_[i % kBanks][slice_of(block[i])] += static_cast<double>(weights[i]);
      }
    }
    for (size_t s = 0; s < kSlices; ++s) {
      for (size_t bank = 1; bank < kBanks; ++bank) mass_[0][s] += mass_[bank][s];
      total_ += mass_[0][s];
    }
  }
  [[nodiscard]] double total() const { return total_; }

  // The slice in which the masses of slices, nearest first, reach `mass`; takes those before from
  // it.
  [[nodiscard]] uint32_t reach(double& mass) const {
    uint32_t slice = 0;
    while (slice + 1 < kSlices && mass_[0][slice] < mass) mass -= mass_[0][slice++];
    return slice;
  }

  // Monotonic; those far away, -inf too, share the last one.
  [[nodiscard]] uint32_t slice_of(float logit) const {
    const float distance = (max_ - logit) * kSlicesPerUnit;
    constexpr auto kLast = static_cast<float>(kSlices - 1);
    return static_cast<uint32_t>(distance < kLast ? distance : kLast);
  }

 private:
  static constexpr size_t kBlock = 256;
  static constexpr size_t kSlices = 512;
  static constexpr float kSlicesPerUnit = 16;  // weights of a slice differ by 6 %
  static constexpr size_t kBanks = 4;          // additions to one slice would wait for each other

  float max_;
  double total_ = 0;
  double mass_[kBanks][kSlices] = {};
};

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
    } else if (const double mass = p_ * total_weight(row, max); row.order == BP_ORDER_DESCENDING) {
      keep_first(row, max, mass);
    } else {
      row.n_candidates = static_cast<uint32_t>(select(candidates(row), max, mass));
    }
    return {};
  }

 private:
  static size_t select(std::span<bp_candidate> items, float max, double mass) {
    return select_mass(items, mass, better, weight_below(max));
  }

  static void keep_first(bp_sample_row& row, float max, double mass) {
    const auto weight = weight_below(max);
    uint32_t n = 0;
    for (; n < row.n_candidates && (n == 0 || mass > 0); ++n) mass -= weight(row.candidates[n]);
    row.n_candidates = n;
  }

  // Where few candidates near the greatest have the mass, as models mostly are. Else the row stays.
  bool keep_near(bp_sample_row& row, float max) const {
    constexpr float kNear = 8;             // logits this far below weigh 1/3000
    const uint32_t few = row.n_vocab / 8;  // more are dearer to order than to sum by distance
    bp_sample_row near = row;
    gather(near, max - kNear);
    if (near.n_candidates > few) return false;
    const double mass = p_ * sum_exp({row.logits, row.n_vocab}, max);
    if (total_weight(near, max) < mass) return false;
    near.n_candidates = static_cast<uint32_t>(select(candidates(near), max, mass));
    row = near;
    return true;
  }

  // Only the slice in which the mass is reached needs an order. It gathers at the end of the
  // candidates' room, what is before it at the front.
  void keep_dense(bp_sample_row& row, float max) const {
    const MassByDistance by_distance({row.logits, row.n_vocab}, max);
    double mass = p_ * by_distance.total();
    const uint32_t last = by_distance.reach(mass);
    uint32_t n_before = 0, edge = row.n_vocab;
    for (uint32_t id = 0; id < row.n_vocab; ++id) {
      const float logit = row.logits[id];
      const uint32_t slice = by_distance.slice_of(logit);
      // Twice from registers: a copy would wait for the halves of the one before it.
      const bp_candidate own{static_cast<int32_t>(id), logit};
      row.candidates[edge - 1] = own;
      row.candidates[n_before] = own;
      n_before += slice < last ? 1 : 0;
      edge -= slice == last && std::isfinite(logit) ? 1 : 0;
    }
    const std::span<bp_candidate> at_edge(row.candidates + n_before, row.n_vocab - edge);
    std::copy_n(row.candidates + edge, at_edge.size(), at_edge.data());
    row.n_candidates = n_before + static_cast<uint32_t>(select(at_edge, max, mass));
    row.order = BP_ORDER_NONE;
  }

  double p_;
};

}  // namespace

Result<std::unique_ptr<Stage>> make_top_p(const Params& fields, uint32_t) {
  const double p = fields.get_float("top_p", 1.0);
  if (p >= 1.0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<TopP>(p));
}

}  // namespace bp::samplers

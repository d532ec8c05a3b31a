#include <algorithm>
#include <cmath>

#include "backplane/softmax.hpp"
#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

double total_weight(bp_sample_row& row, float max) {
  if (is_dense(row)) return sum_exp({row.logits, row.n_vocab}, max);
  double total = 0;
  for (const bp_candidate& c : candidates(row)) {
    total += static_cast<double>(exp_nonpositive(c.logit - max));
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
    const double total = total_weight(row, max);
    if (is_dense(row)) {
      // All tokens less likely than (1 - p) / n together weigh less than 1 - p: without them, the
      // others still reach p.
      const double least = std::log((1 - p_) * total / row.n_vocab);
      gather(row, max + static_cast<float>(std::min(least, 0.0)));
    }
    keep(row, max, p_ * total);
    return {};
  }

 private:
  static void keep(bp_sample_row& row, float max, double mass) {
    const auto weight = [max](const bp_candidate& c) {
      return static_cast<double>(exp_nonpositive(c.logit - max));
    };
    uint32_t n = 0;
    if (row.order == BP_ORDER_DESCENDING) {
      for (; n < row.n_candidates && (n == 0 || mass > 0); ++n) mass -= weight(row.candidates[n]);
    } else {
      n = static_cast<uint32_t>(select_mass(candidates(row), mass, better, weight));
    }
    row.n_candidates = n;
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

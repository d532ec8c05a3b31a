#include <algorithm>
#include <cmath>

#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

class MinP final : public Stage {
 public:
  explicit MinP(double p) : log_p_(static_cast<float>(std::log(p))) {}
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<MinP>(*this);
  }
  Status apply(bp_sample_row& row) override {
    const float max = max_logit(row);
    if (std::isinf(max)) return {};
    const float least = max + log_p_;
    if (is_dense(row)) {
      gather(row, least);
      return {};
    }
    const auto all = candidates(row);
    const auto end = std::remove_if(all.begin(), all.end(),
                                    [least](const bp_candidate& c) { return c.logit < least; });
    row.n_candidates = static_cast<uint32_t>(end - all.begin());
    return {};
  }
  void effect(bp_stage_effect& out) const override {
    out.kind = BP_EFFECT_FLOOR;
    out.value = log_p_;
  }

 private:
  float log_p_;  // at most 0, so that the best token stays
};

}  // namespace

Result<std::unique_ptr<Stage>> make_min_p(const Params& fields, uint32_t) {
  const double p = fields.get_float("min_p", 0.0);
  if (p <= 0.0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<MinP>(std::min(p, 1.0)));
}

}  // namespace bp::samplers

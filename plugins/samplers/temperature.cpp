#include <algorithm>
#include <cmath>
#include <limits>

#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

class Temperature final : public Stage {
 public:
  explicit Temperature(double temperature) : temperature_(temperature) {}
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<Temperature>(*this);
  }
  Status apply(bp_sample_row& row) override {
    const float max = max_logit(row);
    if (std::isinf(max)) return {};
    if (temperature_ == 0) {
      keep_best(row, 1);
      return {};
    }
    // Relative to the best logit, so that a tiny temperature overflows to -inf and not to NaN.
    const float factor = this->factor();
    if (is_dense(row)) {
      for (uint32_t i = 0; i < row.n_vocab; ++i) row.logits[i] = (row.logits[i] - max) * factor;
    } else {
      for (bp_candidate& c : candidates(row)) c.logit = (c.logit - max) * factor;
    }
    return {};
  }
  void effect(bp_stage_effect& out) const override {
    if (temperature_ == 0) {
      out.kind = BP_EFFECT_TOP_K;
      out.count = 1;
    } else {
      out.kind = BP_EFFECT_SCALE;
      out.value = factor();
    }
  }

 private:
  [[nodiscard]] float factor() const {
    const double greatest = std::numeric_limits<float>::max();
    return static_cast<float>(std::min(1 / temperature_, greatest));
  }

  double temperature_;
};

}  // namespace

Result<std::unique_ptr<Stage>> make_temperature(const Params& fields, uint32_t) {
  const double temperature = fields.get_float("temperature", 1.0);
  if (temperature == 1.0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<Temperature>(temperature));
}

}  // namespace bp::samplers

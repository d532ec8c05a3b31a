#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "backplane/softmax.hpp"
#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

struct Scored {
  double distance;  // of the token's surprise from the expected one
  double weight;
  bp_candidate candidate;

  bool operator<(const Scored& other) const {
    return distance != other.distance ? distance < other.distance
                                      : candidate.id < other.candidate.id;
  }
};

// Meister et al., "Locally typical sampling" (2022).
class TypicalP final : public Stage {
 public:
  explicit TypicalP(double p) : p_(p) {}
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<TypicalP>(*this);
  }
  Status apply(bp_sample_row& row) override {
    const float max = max_logit(row);
    if (std::isinf(max)) return {};
    const double total = score(row, max);
    keep(row, p_ * total);
    return {};
  }

 private:
  // Fills scored_ and answers the sum of weights. With s = max - logit, the surprise of a token is
  // s + log(total), and its distance from the entropy is |s - mean(s)|.
  double score(bp_sample_row& row, float max) {
    scored_.clear();
    double total = 0, sum = 0;
    for (const bp_candidate& c : candidates(row)) {
      const double s = static_cast<double>(max) - static_cast<double>(c.logit);
      const auto weight = static_cast<double>(exp_nonpositive(c.logit - max));
      if (weight == 0) continue;
      scored_.push_back({s, weight, c});
      total += weight;
      sum += weight * s;
    }
    const double mean = sum / total;
    for (Scored& s : scored_) s.distance = std::abs(s.distance - mean);
    return total;
  }

  void keep(bp_sample_row& row, double mass) {
    const size_t n = select_mass(std::span(scored_), mass, std::less<Scored>(),
                                 [](std::span<const Scored> some) {
                                   double weight = 0;
                                   for (const Scored& s : some) weight += s.weight;
                                   return weight;
                                 });
    for (size_t i = 0; i < n; ++i) row.candidates[i] = scored_[i].candidate;
    row.n_candidates = static_cast<uint32_t>(n);
    row.order = BP_ORDER_NONE;
  }

  double p_;
  std::vector<Scored> scored_;
};

}  // namespace

Result<std::unique_ptr<Stage>> make_typical_p(const Params& fields, uint32_t) {
  const double p = fields.get_float("typical_p", 1.0);
  if (p >= 1.0) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<TypicalP>(p));
}

}  // namespace bp::samplers

// Keeps the tokens whose logit is at least max - n * sigma, sigma being the standard deviation of
// the row's logits. (Tang et al., "Top-n-sigma: not all logits are you need", 2024)

#include <array>
#include <cmath>

#include "backplane/sampler.hpp"

namespace {

class TopNSigma final : public bp::Stage {
 public:
  explicit TopNSigma(double n) : n_(n) {}
  std::unique_ptr<bp::Stage> clone() const override { return std::make_unique<TopNSigma>(*this); }

  bp::Status apply(bp_sample_row& row) override {
    const bool dense = row.n_candidates == 0;
    const uint32_t n = dense ? row.n_vocab : row.n_candidates;
    const auto at = [&](uint32_t i) {
      return dense ? bp_candidate{static_cast<int32_t>(i), row.logits[i]} : row.candidates[i];
    };
    const double least = threshold(n, at);
    if (!std::isfinite(least)) return {};  // no finite logit: nothing to compare with
    uint32_t n_kept = 0;                   // candidates keep their order; n_kept never passes i
    for (uint32_t i = 0; i < n; ++i) {
      const bp_candidate c = at(i);
      if (c.logit >= least) row.candidates[n_kept++] = c;
    }
    if (dense) row.order = BP_ORDER_NONE;
    row.n_candidates = n_kept;
    return {};
  }

 private:
  // In double, in the order of the row; forbidden tokens have the logit -inf and do not count.
  template <class At>
  double threshold(uint32_t n, const At& at) const {
    double max = -INFINITY, sum = 0, squares = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const double x = at(i).logit;
      if (x == -INFINITY) continue;
      max = std::fmax(max, x);
      sum += x;
      squares += x * x;
      ++count;
    }
    const double mean = sum / count;
    return max - n_ * std::sqrt(std::fmax(squares / count - mean * mean, 0));
  }

  double n_;
};

bp::Result<std::unique_ptr<bp::Stage>> make(const bp::Params& fields, uint32_t /*n_vocab*/) {
  const double n = fields.get_float("top_n_sigma", 0);
  if (n <= 0) return std::unique_ptr<bp::Stage>();  // nothing to do for this request
  return std::unique_ptr<bp::Stage>(std::make_unique<TopNSigma>(n));
}

constexpr uint32_t kFlags = BP_STAGE_DENSE | BP_STAGE_SPARSE | BP_STAGE_TRUNCATES;
constexpr std::array<bp::StageEntry, 1> kStages = {{{{"top_n_sigma", kFlags, 0}, make}}};
constexpr bp_sampler_factory kFactory = bp::sampler_factory<kStages>();

}  // namespace

BP_PLUGIN("top-n-sigma", "1.0.0", {BP_SAMPLER_ID, &kFactory});

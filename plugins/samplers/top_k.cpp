#include "selection.hpp"
#include "stages.hpp"

namespace bp::samplers {

namespace {

class TopK final : public Stage {
 public:
  explicit TopK(uint32_t k) : k_(k) {}
  [[nodiscard]] std::unique_ptr<Stage> clone() const override {
    return std::make_unique<TopK>(*this);
  }
  Status apply(bp_sample_row& row) override {
    keep_best(row, k_);
    return {};
  }
  void effect(bp_stage_effect& out) const override {
    out.kind = BP_EFFECT_TOP_K;
    out.count = k_;
  }

 private:
  uint32_t k_;
};

}  // namespace

Result<std::unique_ptr<Stage>> make_top_k(const Params& fields, uint32_t n_vocab) {
  const int64_t k = fields.get_int("top_k", 0);
  if (k <= 0 || k >= n_vocab) return std::unique_ptr<Stage>();
  return std::unique_ptr<Stage>(std::make_unique<TopK>(static_cast<uint32_t>(k)));
}

}  // namespace bp::samplers

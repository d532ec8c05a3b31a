#pragma once
// How many tokens a step may have, so that its predicted time stays within a limit.

#include <algorithm>
#include <cstdint>

namespace bp::engine {

class StepBudget {
 public:
  StepBudget(uint64_t limit_us, uint32_t max_tokens)
      : limit_us_(static_cast<double>(limit_us)),
        max_tokens_(max_tokens),
        tokens_(std::min(max_tokens, kFirstTokens)) {}

  // A step that took `us`, without copies of preempted sequences. Small steps say little about a
  // token's cost: reading the weights once dominates them.
  void observe(uint32_t n_tokens, uint64_t us) {
    if (n_tokens == 0 || n_tokens < std::min(kFirstTokens, tokens_) / 2) return;
    const double sample = static_cast<double>(us) / n_tokens;
    // Slower is believed at once, faster gradually.
    us_per_token_ = us_per_token_ == 0 || sample > us_per_token_
                        ? sample
                        : us_per_token_ + (sample - us_per_token_) / 4;
    const double fits = limit_us_ / std::max(us_per_token_, 1e-3);
    tokens_ = fits >= max_tokens_ ? max_tokens_ : std::max(1u, static_cast<uint32_t>(fits));
  }

  // At least one token for each of n_decoding sequences: their cost is mostly shared.
  [[nodiscard]] uint32_t tokens(uint32_t n_decoding) const {
    return std::min(max_tokens_, std::max(tokens_, n_decoding));
  }

 private:
  static constexpr uint32_t kFirstTokens = 64;  // before anything was measured

  double limit_us_;
  uint32_t max_tokens_;
  uint32_t tokens_;
  double us_per_token_ = 0;
};

}  // namespace bp::engine

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

  // A step that took `us`, without copies of preempted sequences. Of few tokens it says what a step
  // costs at least, by reading the weights once; of many what each token adds.
  void observe(uint32_t n_tokens, uint64_t us) {
    if (n_tokens == 0) return;
    const auto step_us = static_cast<double>(us);
    if (n_tokens <= kFewTokens) {
      bare_us_ =
          bare_us_ == 0 || step_us < bare_us_ ? step_us : bare_us_ + (step_us - bare_us_) / 4;
    } else if (n_tokens >= std::min(kFirstTokens, tokens_) / 2) {
      const double sample = step_us / n_tokens;
      // Slower is believed at once, faster gradually.
      us_per_token_ = us_per_token_ == 0 || sample > us_per_token_
                          ? sample
                          : us_per_token_ + (sample - us_per_token_) / 4;
      sample_tokens_ = n_tokens;
    }
    // A step faster than its tokens alone should be disproves what they cost, however few they are:
    // a small budget would never see the steps that raise it again.
    if (n_tokens <= kFewTokens && step_us < us_per_token_ * n_tokens) {
      us_per_token_ += (step_us / n_tokens - us_per_token_) / 4;
      sample_tokens_ = n_tokens;
    }
    if (us_per_token_ > 0) tokens_ = fitting_tokens();
  }

  // At least one token for each of n_decoding sequences, whose cost is mostly shared, and half of
  // the budget for prompts, which would else wait for answers to end.
  [[nodiscard]] uint32_t tokens(uint32_t n_decoding) const {
    return std::min(max_tokens_, std::max(tokens_, n_decoding + (tokens_ + 1) / 2));
  }

 private:
  static constexpr uint32_t kFirstTokens = 64;  // before anything was measured
  static constexpr uint32_t kFewTokens = 8;

  // Where a step takes the limit and more whatever it holds, smaller ones would only make more of
  // them: such a step may take twice that.
  [[nodiscard]] uint32_t fitting_tokens() const {
    const double sample_us = us_per_token_ * sample_tokens_;
    // Steps of few tokens that took longer tell of something else.
    const double bare_us = bare_us_ <= sample_us * 1.25 ? bare_us_ : 0;
    const double added = std::max(us_per_token_ - bare_us / sample_tokens_, us_per_token_ / 16);
    const double fits = (std::max(limit_us_, 2 * bare_us) - bare_us) / std::max(added, 1e-3);
    return fits >= max_tokens_ ? max_tokens_ : std::max(1u, static_cast<uint32_t>(fits));
  }

  double limit_us_;
  uint32_t max_tokens_;
  uint32_t tokens_;
  double bare_us_ = 0;          // of a step of few tokens
  double us_per_token_ = 0;     // of others, their bare cost included,
  uint32_t sample_tokens_ = 1;  // which had so many, the last of them
};

}  // namespace bp::engine

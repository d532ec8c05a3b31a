#pragma once
// The sampler stages of one choice, in order, and the final draw.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backplane/sampler.h"
#include "backplane/status.hpp"
#include "core/engine/random.hpp"
#include "core/engine/sampler_set.hpp"
#include "core/plugin/sampler.hpp"

namespace bp::engine {

// Room that all chains of a thread share: candidates for one row.
struct SampleScratch {
  std::vector<bp_candidate> candidates;  // [n_vocab]
};

class SamplerChain {
 public:
  // Of the stages named, or of the set's own chain where `names` is empty; `request` holds fields.
  // Fails on unknown or ambiguous stages and on fields that are unknown, unread or out of range.
  static Result<SamplerChain> create(const SamplerSet& set, std::span<const std::string> names,
                                     const plugin::ParamMap& request, uint32_t n_vocab);

  // origin: BP_TOKENS_*.
  Status accept(std::span<const int32_t> tokens, uint32_t origin) const;
  // The token drawn from a row [n_vocab] without NaN, which is overwritten. INVALID_ARGUMENT where
  // no token can be drawn (all logits are -inf).
  Result<int32_t> sample(std::span<float> logits, const DrawKey& key, SampleScratch& scratch) const;

  [[nodiscard]] bool greedy() const { return greedy_; }

 private:
  struct Link {
    plugin::StageState state;
    uint32_t position;  // in the chain as named: stages left out do not shift random numbers
  };

  Status apply(const Link& link, bp_sample_row& row) const;

  std::vector<Link> links_;
  bool greedy_ = false;  // a temperature of 0: the best of the dense row after the penalties
};

}  // namespace bp::engine

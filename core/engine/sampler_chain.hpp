#pragma once
// The sampler stages of one choice, in order, and the final draw.

#include <cstdint>
#include <limits>
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

// A row of logits [n_vocab] that a chain works on, in place.
struct LogitsRow {
  static constexpr int32_t kUnknown = -1;
  std::span<float> logits;
  int32_t greatest = kUnknown;  // the lowest id of the greatest logit, where that is above -inf
};

// What a whole chain does to a row, where its stages say so.
struct ChainEffect {
  enum class Kind { kOther, kBest, kDraw };
  Kind kind = Kind::kOther;
  // Of kDraw: as in bp_row_request.
  uint32_t top_k = 0;
  float floor = -std::numeric_limits<float>::infinity();
  float scale = 1;
  // Not 0: the first stage leaves that many of the best, and the others can go on from them.
  uint32_t leading_top_k = 0;
};

// The number of the final draw.
[[nodiscard]] double final_uniform(const DrawKey& key);
[[nodiscard]] Status nothing_to_draw();

class SamplerChain {
 public:
  // Of the stages named, or of the set's own chain where `names` is empty; `request` holds fields.
  // Fails on unknown or ambiguous stages and on fields that are unknown, unread or out of range.
  static Result<SamplerChain> create(const SamplerSet& set, std::span<const std::string> names,
                                     const plugin::ParamMap& request, uint32_t n_vocab);

  // With the same history. Fails where a stage cannot be copied.
  [[nodiscard]] Result<SamplerChain> clone() const;

  // origin: BP_TOKENS_*.
  Status accept(std::span<const int32_t> tokens, uint32_t origin) const;
  // The token drawn from a row without NaN, which is overwritten. INVALID_ARGUMENT where no token
  // can be drawn (all logits are -inf).
  Result<int32_t> sample(const LogitsRow& row, const DrawKey& key, SampleScratch& scratch) const;

  // Likewise from what the first stage leaves of the row, best first, where effect() says that it
  // is a top_k.
  Result<int32_t> sample_from_top_k(std::span<const bp_candidate> best, const DrawKey& key,
                                    SampleScratch& scratch) const;

  [[nodiscard]] bool greedy() const { return greedy_; }
  [[nodiscard]] const ChainEffect& effect() const { return effect_; }

 private:
  struct Link {
    plugin::StageState state;
    uint32_t position;  // in the chain as named: stages left out do not shift random numbers
    bp_stage_effect effect;
    ChainEffect after;  // what the links behind it do
    // The greatest logit of a dense row stays where it is.
    [[nodiscard]] bool keeps_greatest() const { return effect.kind != BP_EFFECT_OTHER; }
  };

  static ChainEffect effect_of(std::span<const Link> links, bool greedy);
  Status apply(const Link& link, bp_sample_row& row) const;
  // A stage may draw where what follows it is known.
  void tell_draw(const Link& link, bp_sample_row& row) const;
  // Runs the links from the given one on, and draws. `given` is the row's room while it is dense.
  Result<int32_t> finish(size_t first_link, bp_sample_row row, LogitsRow given,
                         const DrawKey& key) const;

  std::vector<Link> links_;
  uint32_t n_vocab_ = 0;
  ChainEffect effect_;
  bool greedy_ = false;  // a temperature of 0: the best of the dense row after the penalties
};

}  // namespace bp::engine

#pragma once
// Whole-row work on logits [n_vocab].

#include <cstdint>
#include <span>
#include <vector>

#include "backplane/sampler.h"
#include "core/engine/request.hpp"

namespace bp::engine {

// The lowest id among the greatest logits, or -1 where all are -inf.
[[nodiscard]] int32_t argmax(std::span<const float> row);
// Draws from softmax(scale * row) by a uniform number u in [0, 1); -1 where all are -inf. `max` is
// the greatest logit of row.
[[nodiscard]] int32_t draw_dense(std::span<const float> row, float max, float scale, double u);
// Likewise from softmax(candidates).
[[nodiscard]] int32_t draw_sparse(std::span<const bp_candidate> candidates, double u);
// log softmax of `token`, and of the n best, best first, ties by ascending id.
[[nodiscard]] PositionLogprobs logprobs_of(std::span<const float> row, int32_t token, uint32_t n);
// Likewise from what is best of a row, best first, and the log of its sum of exponentials. Where
// fewer than n are candidates, the others have logits of -inf; n is at most the vocabulary.
[[nodiscard]] PositionLogprobs logprobs_of(bp_candidate chosen, std::span<const bp_candidate> best,
                                           double log_sum, uint32_t n);

}  // namespace bp::engine

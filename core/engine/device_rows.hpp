#pragma once
// Rows whose logits stay with the backend ("bp.device-sampling/1"): what it is asked instead, and
// what its answers mean.

#include <cstdint>
#include <span>
#include <vector>

#include "backplane/ext/device_sampling.h"
#include "backplane/status.hpp"
#include "core/engine/sequence.hpp"

namespace bp::engine {

// What a step asks of the row of that position, which the sequence wants; its candidates have no
// room yet. With BP_ROW_LOGITS where only the row itself will do: chains with stages that do not
// say what they do before a top_k cuts, biases, tokens that may not come yet, several choices drawn
// from the one row, and more candidates than the backend offers.
[[nodiscard]] bp_row_request request_row(const Sequence& s, uint32_t position,
                                         uint32_t max_candidates);

// An answer, as far as it can be trusted: INTERNAL where the backend names tokens or counts that
// cannot be, or the row holds no numbers.
[[nodiscard]] Status check_answer(const bp_row_request& request, const bp_row_result& result,
                                  uint32_t n_vocab);

// The token of a choice, by its key; INVALID_ARGUMENT where none can be drawn.
[[nodiscard]] Result<int32_t> token_of(const SamplerChain& chain, const bp_row_request& request,
                                       const bp_row_result& result, const DrawKey& key,
                                       SampleScratch& scratch);

// Of `token`, which the answer is about or has among its candidates, and of the n best.
[[nodiscard]] PositionLogprobs logprobs_of(const bp_row_request& request,
                                           const bp_row_result& result, int32_t token, uint32_t n,
                                           uint32_t n_vocab);

}  // namespace bp::engine

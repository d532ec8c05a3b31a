#include "core/engine/device_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/engine/row_math.hpp"

namespace bp::engine {

namespace {

constexpr bp_row_request kWholeRow{BP_ROW_LOGITS,
                                   BP_CHOOSE_NONE,
                                   -1,
                                   0,
                                   nullptr,
                                   0,
                                   -std::numeric_limits<float>::infinity(),
                                   1,
                                   0,
                                   0};

// Whether the request itself changes logits before the chain.
bool has_rules(const Sequence& s, const Request& request) {
  return !request.logit_bias.empty() || s.n_tokens() - s.n_prompt < request.min_tokens;
}

std::span<const bp_candidate> candidates_of(const bp_row_request& request,
                                            const bp_row_result& result) {
  return {request.candidates, result.n_candidates};
}

bp_row_request without_logits() {
  bp_row_request request = kWholeRow;
  request.flags = 0;
  return request;
}

bp_row_request request_draw(const Sequence& s, const Request& asked, uint32_t max_candidates) {
  if (has_rules(s, asked)) return kWholeRow;
  const ChainEffect& effect = s.chain.effect();
  bp_row_request request = without_logits();
  if (asked.logprobs) request.n_candidates = asked.n_top_logprobs;
  const bool one_number = s.request->n_forks == 0;  // a row has room for one uniform number
  if (effect.kind == ChainEffect::Kind::kBest) {
    request.choice = BP_CHOOSE_BEST;
  } else if (effect.kind == ChainEffect::Kind::kDraw && one_number &&
             effect.top_k <= max_candidates) {
    request.choice = BP_CHOOSE_DRAW;
    request.top_k = effect.top_k;
    request.floor = effect.floor;
    request.scale = effect.scale;
    request.uniform = final_uniform({asked.seed, s.choice, s.n_tokens()});
  } else if (effect.leading_top_k > 0) {
    request.n_candidates = std::max(request.n_candidates, effect.leading_top_k);
  } else {
    return kWholeRow;
  }
  return request.n_candidates <= max_candidates ? request : kWholeRow;
}

}  // namespace

bp_row_request request_row(const Sequence& s, uint32_t position, uint32_t max_candidates) {
  const Request& asked = s.request->request;
  if (!s.wants_prompt_row(position)) return request_draw(s, asked, max_candidates);
  if (asked.n_top_logprobs > max_candidates) return kWholeRow;
  bp_row_request request = without_logits();
  request.token = s.tokens[position + 1];
  request.n_candidates = asked.n_top_logprobs;
  return request;
}

Status check_answer(const bp_row_request& request, const bp_row_result& result, uint32_t n_vocab) {
  if ((result.flags & BP_ROW_NO_NUMBERS) != 0) {
    return internal_error("the model computed logits that are not numbers");
  }
  const auto is_known = [n_vocab](int32_t id) {
    return id >= 0 && static_cast<uint32_t>(id) < n_vocab;
  };
  const bool has_token = result.token == -1 || is_known(result.token);
  const bool fits = result.n_candidates <= std::min(request.n_candidates, n_vocab);
  const auto is_sound = [is_known](const bp_candidate& c) {
    return is_known(c.id) && std::isfinite(c.logit);
  };
  if (has_token && fits && std::ranges::all_of(candidates_of(request, result), is_sound)) return {};
  return internal_error("the backend chose tokens that do not exist");
}

Result<int32_t> token_of(const SamplerChain& chain, const bp_row_request& request,
                         const bp_row_result& result, const DrawKey& key, SampleScratch& scratch) {
  if (request.choice == BP_CHOOSE_NONE) {
    const auto best = candidates_of(request, result);
    const size_t n = std::min<size_t>(best.size(), chain.effect().leading_top_k);
    return chain.sample_from_top_k(best.first(n), key, scratch);
  }
  if (result.token < 0) return nothing_to_draw();
  return result.token;
}

PositionLogprobs logprobs_of(const bp_row_request& request, const bp_row_result& result,
                             int32_t token, uint32_t n, uint32_t n_vocab) {
  const auto candidates = candidates_of(request, result);
  float logit = result.given_logit;
  if (token == result.token) logit = result.token_logit;
  if (request.choice == BP_CHOOSE_NONE && request.token < 0) {
    const auto found = std::ranges::find(candidates, token, &bp_candidate::id);
    if (found != candidates.end()) logit = found->logit;
  }
  return logprobs_of({token, logit}, candidates, result.log_sum, std::min(n, n_vocab));
}

}  // namespace bp::engine

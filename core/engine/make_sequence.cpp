#include "core/engine/make_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/engine/clock.hpp"

namespace bp::engine {

namespace {

Status check_token(const char* where, int32_t token, uint32_t n_vocab) {
  if (token >= 0 && static_cast<uint32_t>(token) < n_vocab) return {};
  return invalid_argument(
      fmt::format("{}: token {} is outside the vocabulary of {}", where, token, n_vocab));
}

Status check_tokens(const Request& r, uint32_t n_vocab) {
  for (const int32_t token : r.prompt) BP_TRY(check_token("prompt", token, n_vocab));
  for (const int32_t token : r.stop_tokens) BP_TRY(check_token("stop_tokens", token, n_vocab));
  for (const auto& [token, bias] : r.logit_bias) {
    BP_TRY(check_token("logit_bias", token, n_vocab));
    if (!std::isfinite(bias)) return invalid_argument("logit_bias: a bias must be finite");
  }
  return {};
}

Status check_prompt(const Request& r, uint32_t context) {
  if (r.prompt.empty()) return invalid_argument("prompt: at least one token is needed");
  const size_t max_prompt = r.prompt_only ? context : context - 1;
  if (r.prompt.size() <= max_prompt) return {};
  return invalid_argument(fmt::format("prompt: {} tokens do not fit the context of {}{}",
                                      r.prompt.size(), context,
                                      r.prompt_only ? "" : " with room for an answer"));
}

Status check(const Request& r, const EngineParts& parts, uint32_t context) {
  if (r.sink == nullptr) return invalid_argument("a request needs a sink");
  BP_TRY(check_prompt(r, context));
  BP_TRY(check_tokens(r, parts.n_vocab));
  if (r.n < 1 || r.n > parts.limits.max_choices) {
    return invalid_argument(fmt::format("n: {} is not in 1..{}", r.n, parts.limits.max_choices));
  }
  if (r.n > 1 && r.prompt_only) return invalid_argument("n: a prompt alone has one choice");
  if (r.n_top_logprobs > parts.n_vocab) {
    return invalid_argument(fmt::format("top_logprobs: the vocabulary has {}", parts.n_vocab));
  }
  if (std::ranges::any_of(r.stop, &std::string::empty)) {
    return invalid_argument("stop: a stop string must not be empty");
  }
  return {};
}

Result<std::unique_ptr<Sequence>> make_first_choice(const EngineParts& parts, const Request& r) {
  BP_ASSIGN(SamplerChain chain,
            SamplerChain::create(parts.samplers, r.chain, r.sampling, parts.n_vocab));
  BP_TRY(chain.accept(r.prompt, BP_TOKENS_PROMPT));
  AnswerText text(parts.tokenizer, r.special_text, r.shown_tokens, r.prompt.back(), r.stop);
  auto sequence = std::make_unique<Sequence>(std::move(chain), std::move(text));
  sequence->tokens = r.prompt;
  sequence->n_prompt = static_cast<uint32_t>(r.prompt.size());
  return sequence;
}

}  // namespace

Result<std::unique_ptr<Sequence>> make_sequence(const EngineParts& parts, uint32_t context,
                                                Request request) {
  BP_TRY(check(request, parts, context));
  BP_ASSIGN(std::unique_ptr<Sequence> first, make_first_choice(parts, request));
  auto state = std::make_shared<RequestState>();
  state->n_forks = request.n - 1;
  // With the length in front, no two pairs give the same salt.
  state->salt = fmt::format("{}:{}{}", request.tenant.size(), request.tenant, request.cache_salt);
  if (!request.tenant.empty()) {
    state->tenant_hash = static_cast<uint32_t>(std::hash<std::string>{}(request.tenant));
  }
  state->arrival_us = now_us();
  state->n_unfinished = request.n;
  state->request = std::move(request);
  first->request = std::move(state);
  return first;
}

std::unique_ptr<Sequence> make_fork(const Sequence& first, uint32_t choice, SamplerChain chain) {
  auto fork = std::make_unique<Sequence>(std::move(chain), first.text);
  fork->request = first.request;
  fork->choice = choice;
  fork->tokens = first.tokens;
  fork->n_prompt = first.n_prompt;
  fork->set_id();
  return fork;
}

}  // namespace bp::engine

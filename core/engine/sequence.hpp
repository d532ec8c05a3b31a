#pragma once
// Requests and their choices while the engine works on them.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/answer_text.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/request.hpp"
#include "core/engine/sampler_chain.hpp"
#include "core/kv/block_manager.hpp"
#include "core/kv/swap_store.hpp"

namespace bp::engine {

struct Sequence;

// Shared by the choices of a request. Engine's thread only, once it was queued.
struct RequestState {
  RequestId id = 0;
  Request request;
  std::string salt;  // of the prefix cache
  uint32_t tenant_hash = 0;
  uint64_t arrival_us = 0;
  uint64_t first_run_us = 0;                      // 0: has not run yet
  uint32_t n_cached = 0;                          // of the prompt, when it ran first
  uint32_t n_unfinished = 0;                      // choices whose sink has not seen the end
  std::vector<PositionLogprobs> prompt_logprobs;  // of prompt tokens 1, 2, ...; until emitted
  uint32_t n_prompt_logprobs = 0;                 // computed so far
  bool prompt_logprobs_emitted = false;
  // Of choices 1 .. n-1, which come into being once the prompt is computed, and share its blocks
  // and its last row: those that are to come.
  uint32_t n_forks = 0;
  [[nodiscard]] uint32_t next_choice() const { return request.n - n_forks; }
};

// One choice. Waiting (holds no blocks) -> running -> finished; preemption leads back to waiting.
struct Sequence {
  enum class State { kWaiting, kRunning, kFinished };

  Sequence(SamplerChain sampler_chain, AnswerText answer_text)
      : chain(std::move(sampler_chain)), text(std::move(answer_text)) {}

  SamplerChain chain;
  AnswerText text;
  std::shared_ptr<RequestState> request;
  uint64_t id = 0;  // ascending in order of arrival, then of choices
  uint32_t choice = 0;
  State state = State::kWaiting;
  std::vector<int32_t> tokens;  // prompt and generated; the last n_expected are ids of -1-r
  uint32_t n_prompt = 0;
  uint32_t n_expected = 0;  // tokens that the step in flight chooses, while another follows it
  uint32_t n_computed = 0;  // leading tokens whose keys and values are in the blocks, or will be
                            // after the steps in flight
  kv::BlockTable table;
  uint64_t last_run_step = UINT64_MAX;
  uint64_t first_token_us = 0;
  uint64_t last_token_us = 0;

  kv::SwapStore::Images kept;  // of its computed tokens, since it was preempted
  kv::PrefixMatch match;       // while it waits
  uint32_t n_cached = 0;       // of those tokens, when the scheduler was last shown them

  void set_id() { id = request->id << 16 | choice; }
  [[nodiscard]] uint32_t n_tokens() const { return static_cast<uint32_t>(tokens.size()); }
  [[nodiscard]] uint32_t n_known() const { return n_tokens() - n_expected; }
  [[nodiscard]] uint32_t n_generated() const { return n_known() - n_prompt; }
  [[nodiscard]] bool prompt_logprobs_missing() const {
    return request->request.prompt_logprobs && request->n_prompt_logprobs + 1 < n_prompt;
  }
  // Whether the row of that position yields the logprobs of a prompt token.
  [[nodiscard]] bool wants_prompt_row(uint32_t position) const {
    return prompt_logprobs_missing() && position + 1 < n_prompt &&
           position >= request->n_prompt_logprobs;
  }
  // Whether a new token is drawn from the row of that position.
  [[nodiscard]] bool draws_at(uint32_t position) const {
    return position + 1 == n_tokens() && !request->request.prompt_only;
  }
  [[nodiscard]] bool wants_row(uint32_t position) const {
    return draws_at(position) || wants_prompt_row(position);
  }
};

// In order of arrival, choices of a request side by side.
using SequenceList = std::vector<std::unique_ptr<Sequence>>;

// What the sinks are told at the end of a step.
struct Event {
  std::shared_ptr<RequestState> request;
  uint32_t choice = 0;
  Delta delta;
  bool has_finish = false;
  Finish finish;
  bool has_prompt_logprobs = false;  // those of the request go out first
};
using Events = std::vector<Event>;

}  // namespace bp::engine

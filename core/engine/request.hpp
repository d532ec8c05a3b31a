#pragma once
// What the engine is asked, and what it answers.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/plugin/params.hpp"

namespace bp::engine {

struct TokenLogprob {
  int32_t token;
  float logprob;  // natural logarithm
};

// The chosen token and the best alternatives, best first.
struct PositionLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

enum class FinishReason { kStop, kLength, kCancelled, kError };

// What one step adds to one choice.
struct Delta {
  std::string text;             // valid UTF-8; empty while a character or stop string is incomplete
  std::vector<int32_t> tokens;  // also those whose text is held back, and the one that ends it
  std::vector<PositionLogprobs> logprobs;  // one for each of tokens, where asked for
};

struct Usage {
  uint32_t n_prompt = 0;
  uint32_t n_cached = 0;     // of n_prompt, found in the prefix cache
  uint32_t n_generated = 0;  // of this choice
};

struct Finish {
  FinishReason reason;
  std::string stop_text;  // the stop string that ended it, if any
  std::string error;      // a sentence, for kError
  Usage usage;
};

// Receives a request's events, on the engine's thread: must return at once and not throw. Nothing
// comes after the last choice's finish.
class Sink {
 public:
  virtual ~Sink() = default;
  // Before the first delta, where prompt_logprobs was asked for: one entry for each prompt token
  // but the first.
  virtual void on_prompt_logprobs(std::vector<PositionLogprobs> logprobs) = 0;
  virtual void on_delta(uint32_t choice, Delta delta) = 0;
  virtual void on_finish(uint32_t choice, Finish finish) = 0;
  // After the events of a step, those of all requests. First each sink may make one piece of its
  // own, then each one that passes pieces on may do so.
  virtual void on_step_end() {}
  virtual void flush() {}
};

struct Request {
  std::vector<int32_t> prompt;       // at least one token
  uint32_t n = 1;                    // choices, which share the prompt
  uint32_t max_tokens = 0;           // 0: to the end of the context
  uint32_t min_tokens = 0;           // no end of generation before
  uint64_t seed = 0;                 // choice i draws from stream (seed, i)
  std::vector<std::string> stop;     // the text ends before the first of them
  std::vector<int32_t> stop_tokens;  // besides the model's own end-of-generation tokens
  bool ignore_eos = false;
  bool logprobs = false;
  uint32_t n_top_logprobs = 0;
  bool prompt_logprobs = false;
  bool prompt_only = false;           // finishes with kLength when the prompt is computed
  bool special_text = false;          // special tokens appear in the text
  std::vector<int32_t> shown_tokens;  // ascending: special tokens that appear in it all the same
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> chain;  // sampler stages; empty: the model's
  plugin::ParamMap sampling;       // request fields of stages; the model's defaults fill the rest
  int32_t priority = 0;
  std::string tenant;
  std::string cache_salt;  // prefix blocks are shared only among equal salts and tenants
  std::shared_ptr<Sink> sink;
};

}  // namespace bp::engine

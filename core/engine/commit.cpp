#include "core/engine/commit.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/engine/make_sequence.hpp"

namespace bp::engine {

namespace {

void fail(Sequence& s, const Status& error, const CommitContext& c) {
  finish(s, {FinishReason::kError, {}, error.message(), {}}, c.finish);
}

bool contains(std::span<const int32_t> tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

void note_token(Sequence& s, uint64_t now, Stats& stats) {
  const auto seconds = [](uint64_t us) { return static_cast<double>(us) * 1e-6; };
  stats.generation_tokens_total.add();
  if (s.first_token_us == 0) {
    s.first_token_us = now;
    if (s.choice == 0) {
      stats.time_to_first_token_s.observe(seconds(now - s.request->arrival_us));
    }
  } else {
    stats.inter_token_latency_s.observe(seconds(now - s.last_token_us));
  }
  s.last_token_us = now;
}

// The reason to end after the newest token, whose text goes to `text`.
std::optional<Finish> end_after(Sequence& s, int32_t token, std::string& text,
                                const CommitContext& c) {
  const Request& request = s.request->request;
  const bool eog = !request.ignore_eos && contains(c.end_of_generation, token);
  if (eog || contains(request.stop_tokens, token)) {
    text = s.text.flush();
    return Finish{FinishReason::kStop, {}, {}, {}};
  }
  text = s.text.push(token, s.n_generated() >= request.min_tokens);
  if (s.text.found_stop()) return Finish{FinishReason::kStop, *s.text.found_stop(), {}, {}};
  const bool enough = request.max_tokens > 0 && s.n_generated() >= request.max_tokens;
  if (!enough && s.n_known() < c.context) return std::nullopt;
  text += s.text.flush();
  return Finish{FinishReason::kLength, {}, {}, {}};
}

// In place of the id that stood for it, where the step after this one is in flight already.
void set_next(Sequence& s, int32_t token) {
  if (s.n_expected == 0) return s.tokens.push_back(token);
  s.tokens[s.n_known()] = token;
  --s.n_expected;
}

void append(Sequence& s, Draw& draw, const CommitContext& c) {
  if (!draw.error.ok()) return fail(s, draw.error, c);
  set_next(s, draw.token);
  note_token(s, c.now_us, c.finish.stats);
  Delta delta;
  delta.tokens.push_back(draw.token);
  if (draw.logprobs) delta.logprobs.push_back(*std::move(draw.logprobs));
  auto end = end_after(s, draw.token, delta.text, c);
  if (end) return finish(s, *std::move(end), c.finish, std::move(delta));
  const Status accepted = s.chain.accept({&draw.token, 1}, BP_TOKENS_GENERATED);
  c.finish.events.push_back({s.request, s.choice, std::move(delta), false, {}, false});
  if (!accepted.ok()) fail(s, accepted, c);
}

void commit_prompt_logprobs(const Planned& planned, Outcome& outcome, const CommitContext& c) {
  const Sequence& s = *planned.sequence;
  RequestState& r = *s.request;
  if (!r.request.prompt_logprobs || r.prompt_logprobs_emitted) return;
  r.n_prompt_logprobs += static_cast<uint32_t>(outcome.prompt_logprobs.size());
  std::ranges::move(outcome.prompt_logprobs, std::back_inserter(r.prompt_logprobs));
  // s.n_computed may count the step that follows.
  if (planned.end() < s.n_prompt) return;
  r.prompt_logprobs_emitted = true;
  c.finish.events.push_back({s.request, s.choice, {}, false, {}, true});
}

// The other choices begin with this one's blocks, and their own first tokens. Each that has come
// into being is among the sequences, whatever is thrown then.
Status add_forks(Sequence& s, SequenceList& sequences, const CommitContext& c) {
  RequestState& request = *s.request;
  std::vector<SamplerChain> chains;
  for (uint32_t i = 0; i < request.n_forks; ++i) {
    BP_ASSIGN(SamplerChain chain, s.chain.clone());
    chains.push_back(std::move(chain));
  }
  sequences.reserve(sequences.size() + chains.size());
  for (SamplerChain& chain : chains) {
    auto fork = make_fork(s, request.next_choice(), std::move(chain));
    fork->table = c.finish.kv.fork(s.table, s.n_computed);
    fork->n_computed = s.n_computed;
    fork->state = Sequence::State::kRunning;
    sequences.push_back(std::move(fork));
    --request.n_forks;
  }
  return {};
}

void commit_sequence(const Planned& planned, Outcome& outcome, SequenceList& sequences,
                     const CommitContext& c) {
  Sequence& s = *planned.sequence;
  if (!outcome.error.ok()) return fail(s, outcome.error, c);
  if (!outcome.computed) return;
  if (s.state == Sequence::State::kRunning) {
    c.finish.kv.register_full(s.table, s.tokens, planned.end(), s.request->salt);
  }
  commit_prompt_logprobs(planned, outcome, c);
  if (s.request->request.prompt_only && planned.end() == s.n_prompt) {
    return finish(s, {FinishReason::kLength, {}, {}, {}}, c.finish);
  }
  if (outcome.draws.empty()) return;
  const size_t first_fork = sequences.size();
  if (const Status added = add_forks(s, sequences, c); !added.ok()) return fail(s, added, c);
  append(s, outcome.draws[0], c);
  for (size_t i = first_fork; i < sequences.size(); ++i) {
    append(*sequences[i], outcome.draws[1 + i - first_fork], c);
  }
}

}  // namespace

void commit(const Plan& plan, const Status& executed, std::vector<Outcome>& outcomes,
            SequenceList& sequences, const CommitContext& c) {
  const size_t n_before = sequences.size();
  if (!executed.ok()) c.finish.stats.failed_steps.add();
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const Planned& planned = plan.sequences[i];
    if (planned.sequence->state == Sequence::State::kFinished) continue;
    executed.ok() ? commit_sequence(planned, outcomes[i], sequences, c)
                  : fail(*planned.sequence, executed, c);
  }
  if (sequences.size() > n_before) {  // the order of arrival
    std::ranges::sort(sequences, {}, [](const auto& s) { return s->id; });
  }
  remove_finished(sequences, c.finish.ended);
}

}  // namespace bp::engine

#include "core/engine/finish.hpp"

#include <utility>

#include "core/engine/clock.hpp"
#include "core/engine/make_sequence.hpp"

namespace bp::engine {

namespace {

double seconds(uint64_t begin_us, uint64_t end_us) {
  return static_cast<double>(end_us - begin_us) * 1e-6;
}

void count(const Sequence& sequence, FinishReason reason, Stats& stats) {
  const uint64_t now = now_us();
  stats.finished[static_cast<size_t>(reason)].add();
  stats.e2e_latency_s.observe(seconds(sequence.request->arrival_us, now));
  stats.generation_tokens.observe(sequence.n_generated());
  if (sequence.first_token_us == 0) return;
  stats.prefill_time_s.observe(seconds(sequence.request->first_run_us, sequence.first_token_us));
  stats.decode_time_s.observe(seconds(sequence.first_token_us, now));
}

// The event comes first: where there is no memory for it the choice has not ended yet.
void end_choice(Sequence& sequence, Finish finish, const FinishContext& c, Delta last) {
  const FinishReason reason = finish.reason;
  finish.usage = {sequence.n_prompt, sequence.request->n_cached, sequence.n_generated()};
  c.events.push_back({sequence.request, sequence.choice, std::move(last), true, std::move(finish)});
  count(sequence, reason, c.stats);
  // Content computed from broken data is not offered to others.
  if (reason == FinishReason::kError) {
    c.kv.discard(sequence.table);
  } else {
    c.kv.release(sequence.table);
  }
  sequence.kept = {};
  sequence.state = Sequence::State::kFinished;
}

}  // namespace

void finish(Sequence& sequence, Finish finish, const FinishContext& c, Delta last) {
  const std::shared_ptr<RequestState> request = sequence.request;
  for (; request->n_forks > 0; --request->n_forks) {
    end_choice(*make_fork(sequence, request->next_choice(), {}), finish, c, {});
  }
  end_choice(sequence, std::move(finish), c, std::move(last));
  if (request->first_run_us == 0) c.mailbox.note_left_queue();
}

void remove_finished(SequenceList& sequences, SequenceList& ended) {
  for (auto& s : sequences) {
    if (s->state == Sequence::State::kFinished) ended.push_back(std::move(s));
  }
  std::erase(sequences, nullptr);
}

}  // namespace bp::engine

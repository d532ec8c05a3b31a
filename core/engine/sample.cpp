#include "core/engine/sample.hpp"

#include <atomic>
#include <exception>
#include <limits>
#include <mutex>

#include "backplane/softmax.hpp"
#include "core/engine/device_rows.hpp"
#include "core/engine/row_math.hpp"
#include "core/plugin/thread_team.hpp"

namespace bp::engine {

namespace {

struct DrawContext {
  std::span<const int32_t> end_of_generation;
  SampleRoom& room;
};

void forbid(std::span<float> row, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    row[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  }
}

void apply_request_rules(const Sequence& s, const Request& request, const DrawContext& c,
                         LogitsRow& row) {
  const bool may_not_end = s.n_generated() < request.min_tokens;
  if (may_not_end || !request.logit_bias.empty()) row.greatest = LogitsRow::kUnknown;
  for (const auto& [token, bias] : request.logit_bias) {
    row.logits[static_cast<size_t>(token)] += bias;
  }
  if (!may_not_end) return;
  forbid(row.logits, request.stop_tokens);
  if (!request.ignore_eos) forbid(row.logits, c.end_of_generation);
}

// `keep_row`: the row is needed again as it is.
Draw draw(const Sequence& s, uint32_t choice, const LogitsRow& row, bool keep_row,
          const DrawContext& c) {
  const Request& request = s.request->request;
  LogitsRow work = row;
  if (keep_row || request.logprobs) {
    c.room.row.assign(row.logits.begin(), row.logits.end());
    work.logits = c.room.row;
  }
  apply_request_rules(s, request, c, work);
  const DrawKey key{request.seed, choice, s.n_tokens()};
  auto token = s.chain.sample(work, key, c.room.scratch);
  Draw drawn;
  if (!token.ok()) {
    drawn.error = token.status();
    return drawn;
  }
  drawn.token = *token;
  if (request.logprobs) drawn.logprobs = logprobs_of(row.logits, *token, request.n_top_logprobs);
  return drawn;
}

// Choices that have not come into being have the history of the first.
std::vector<Draw> draw_choices(const Sequence& s, const LogitsRow& row, const DrawContext& c) {
  const uint32_t n_forks = s.request->n_forks;
  std::vector<Draw> draws;
  draws.reserve(1 + n_forks);
  for (uint32_t i = 0; i <= n_forks; ++i) {
    draws.push_back(draw(s, s.choice + i, row, i < n_forks, c));
  }
  return draws;
}

Draw draw_on_device(const Sequence& s, uint32_t choice, const bp_row_request& asked,
                    const bp_row_result& answer, uint32_t n_vocab, const DrawContext& c) {
  const Request& request = s.request->request;
  Draw drawn;
  const DrawKey key{request.seed, choice, s.n_tokens()};
  const auto token = token_of(s.chain, asked, answer, key, c.room.scratch);
  if (!token.ok()) {
    drawn.error = token.status();
    return drawn;
  }
  drawn.token = *token;
  if (request.logprobs) {
    drawn.logprobs = logprobs_of(asked, answer, *token, request.n_top_logprobs, n_vocab);
  }
  return drawn;
}

// Of a row whose logits have stayed with the backend.
void read_answer(const Sequence& s, uint32_t r, const Batch& batch, const DrawContext& c,
                 Outcome& outcome) {
  const Request& request = s.request->request;
  const bp_row_request& asked = batch.row_requests[r];
  const bp_row_result& answer = batch.row_results[r];
  outcome.error = check_answer(asked, answer, batch.n_vocab);
  if (!outcome.error.ok()) return;
  if (asked.token >= 0) {
    outcome.prompt_logprobs.push_back(
        logprobs_of(asked, answer, asked.token, request.n_top_logprobs, batch.n_vocab));
    return;
  }
  for (uint32_t i = 0; i <= s.request->n_forks; ++i) {
    outcome.draws.push_back(draw_on_device(s, s.choice + i, asked, answer, batch.n_vocab, c));
  }
}

// As far as it can be trusted; a row with a greatest logit holds numbers.
Status check_row(const LogitsRow& row) {
  if (row.greatest < LogitsRow::kUnknown ||
      row.greatest >= static_cast<int64_t>(row.logits.size())) {
    return internal_error("the backend named a greatest logit that does not exist");
  }
  if (row.greatest == LogitsRow::kUnknown && has_nan_or_infinity(row.logits)) {
    return internal_error("the model computed logits that are not numbers");
  }
  return {};
}

Outcome sample_sequence(const Sequence& s, uint32_t first_row, uint32_t end_row, Batch& batch,
                        const DrawContext& c) {
  Outcome outcome;
  outcome.computed = true;
  for (uint32_t r = first_row; r < end_row; ++r) {
    if (batch.stays_on_device(r)) {
      read_answer(s, r, batch, c, outcome);
      if (!outcome.error.ok()) return outcome;
      continue;
    }
    const LogitsRow row{batch.row(r), batch.greatest[r]};
    outcome.error = check_row(row);
    if (!outcome.error.ok()) return outcome;
    const auto position = static_cast<uint32_t>(batch.positions[batch.rows[r]]);
    if (s.wants_prompt_row(position)) {
      const uint32_t n_top = s.request->request.n_top_logprobs;
      outcome.prompt_logprobs.push_back(logprobs_of(row.logits, s.tokens[position + 1], n_top));
    } else {
      outcome.draws = draw_choices(s, row, c);
    }
  }
  return outcome;
}

// Rows of so many logits are not worth waking a worker for.
constexpr size_t kSharedLogits = size_t{64} << 10;

// The sequences of a step, which the workers take one after another.
class StepSampling {
 public:
  StepSampling(const Plan& plan, Batch& batch, std::span<const int32_t> end_of_generation,
               std::vector<SampleRoom>& rooms)
      : plan_(plan),
        batch_(batch),
        end_of_generation_(end_of_generation),
        rooms_(rooms),
        outcomes_(plan.sequences.size()) {}

  [[nodiscard]] bool worth_sharing() const {
    size_t n_rows = 0;  // on the host
    for (uint32_t r = 0; r < batch_.rows.size(); ++r) n_rows += batch_.stays_on_device(r) ? 0 : 1;
    return outcomes_.size() > 1 && n_rows * batch_.n_vocab >= kSharedLogits;
  }

  // Until no sequence is left. What one of them throws is thrown by take().
  void work(uint32_t worker) {
    try {
      for (size_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < outcomes_.size();) {
        outcomes_[i] = sample_at(i, {end_of_generation_, rooms_[worker]});
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  std::vector<Outcome> take() {
    if (failure_) std::rethrow_exception(failure_);
    return std::move(outcomes_);
  }

 private:
  Outcome sample_at(size_t i, const DrawContext& c) {
    const Sequence& s = *plan_.sequences[i].sequence;
    if (s.state == Sequence::State::kFinished) return {};
    if (batch_.seq_status[i] == BP_SEQ_STOPPED && batch_.stop_seq[i] != 0) return {};
    if (batch_.seq_status[i] == BP_SEQ_OK) {
      return sample_sequence(s, batch_.first_row[i], batch_.first_row[i + 1], batch_, c);
    }
    Outcome outcome;
    outcome.error = internal_error("the backend could not compute this sequence");
    return outcome;
  }

  const Plan& plan_;
  Batch& batch_;
  std::span<const int32_t> end_of_generation_;
  std::vector<SampleRoom>& rooms_;
  std::vector<Outcome> outcomes_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

std::vector<Outcome> sample(const Plan& plan, Batch& batch,
                            std::span<const int32_t> end_of_generation, Samplers samplers) {
  StepSampling step(plan, batch, end_of_generation, samplers.rooms);
  const bool shared = samplers.team != nullptr && step.worth_sharing();
  const size_t n_rooms = shared ? samplers.team->n_threads() : 1;
  if (samplers.rooms.size() < n_rooms) samplers.rooms.resize(n_rooms);
  const auto work = [](void* argument, uint32_t worker, uint32_t, bp_team*) {
    static_cast<StepSampling*>(argument)->work(worker);
  };
  if (!shared || !samplers.team->try_run(0, work, &step)) step.work(0);
  return step.take();
}

}  // namespace bp::engine

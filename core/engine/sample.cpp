#include "core/engine/sample.hpp"

#include <limits>

#include "core/engine/row_math.hpp"

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
                         std::span<float> row) {
  for (const auto& [token, bias] : request.logit_bias) row[static_cast<size_t>(token)] += bias;
  if (s.n_generated() >= request.min_tokens) return;
  forbid(row, request.stop_tokens);
  if (!request.ignore_eos) forbid(row, c.end_of_generation);
}

// `keep_row`: the row is needed again as it is.
Draw draw(const Sequence& s, const Request& request, std::span<float> row, bool keep_row,
          const DrawContext& c) {
  std::span<float> work = row;
  if (keep_row || request.logprobs) {
    c.room.row.assign(row.begin(), row.end());
    work = c.room.row;
  }
  apply_request_rules(s, request, c, work);
  const DrawKey key{request.seed, s.choice, s.n_tokens()};
  auto token = s.chain.sample(work, key, c.room.scratch);
  Draw drawn;
  if (!token.ok()) {
    drawn.error = token.status();
    return drawn;
  }
  drawn.token = *token;
  if (request.logprobs) drawn.logprobs = logprobs_of(row, *token, request.n_top_logprobs);
  return drawn;
}

std::vector<Draw> draw_choices(const Sequence& s, std::span<float> row, const DrawContext& c) {
  const auto& forks = s.request->forks;
  std::vector<Draw> draws;
  draws.reserve(1 + forks.size());
  draws.push_back(draw(s, s.request->request, row, !forks.empty(), c));
  for (const auto& fork : forks) {
    draws.push_back(draw(*fork, s.request->request, row, fork != forks.back(), c));
  }
  return draws;
}

Outcome sample_sequence(const Sequence& s, uint32_t first_row, uint32_t end_row, Batch& batch,
                        const DrawContext& c) {
  Outcome outcome;
  outcome.computed = true;
  for (uint32_t r = first_row; r < end_row; ++r) {
    const std::span<float> row = batch.row(r);
    if (has_nan_or_infinity(row)) {
      outcome.error = internal_error("the model computed logits that are not numbers");
      return outcome;
    }
    const auto position = static_cast<uint32_t>(batch.positions[batch.rows[r]]);
    if (s.wants_prompt_row(position)) {
      const uint32_t n_top = s.request->request.n_top_logprobs;
      outcome.prompt_logprobs.push_back(logprobs_of(row, s.tokens[position + 1], n_top));
    } else {
      outcome.draws = draw_choices(s, row, c);
    }
  }
  return outcome;
}

}  // namespace

std::vector<Outcome> sample(const Plan& plan, Batch& batch,
                            std::span<const int32_t> end_of_generation, SampleRoom& room) {
  std::vector<Outcome> outcomes(plan.sequences.size());
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Sequence& s = *plan.sequences[i].sequence;
    if (batch.seq_status[i] == BP_SEQ_STOPPED) continue;
    if (batch.seq_status[i] == BP_SEQ_OK) {
      outcomes[i] = sample_sequence(s, batch.first_row[i], batch.first_row[i + 1], batch,
                                    {end_of_generation, room});
    } else {
      outcomes[i].error = internal_error("the backend could not compute this sequence");
    }
  }
  return outcomes;
}

}  // namespace bp::engine

// "bp.device-sampling/1", convention 7: ids of -1-r, which stand for what the step before chose.

#include <cstring>
#include <deque>
#include <limits>
#include <memory>

#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/support/device_sampling.hpp"
#include "sdk/conformance/support/llama_session.hpp"
#include "sdk/conformance/support/steps_in_flight.hpp"

namespace bp::conformance {

namespace {

using RowIndices = std::vector<uint32_t>;

constexpr int32_t id_of_row(uint32_t r) {
  return -1 - static_cast<int32_t>(r);
}

void require_takes_chosen(BackendSession& session) {
  const auto offered = offered_sampling(session.table(), session.backend());
  if (!offered) throw Skip("the backend does not offer " BP_DEVICE_SAMPLING_ID);
  if (offered->takes_chosen == 0) {
    throw Skip("the backend does not take ids of -1-r: takes_chosen is 0");
  }
}

// ---- the llama ----------------------------------------------------------------------------------

constexpr int32_t kChosen = std::numeric_limits<int32_t>::min();

// Tokens of a sequence in a step; kChosen is what the step before chose for it.
struct Part {
  uint32_t sequence;
  Ints tokens;
};
using Plan = std::vector<std::vector<Part>>;

// Prompts; a decode of all in another order; then decodes beside explicit ids, chunks of a prompt,
// and a chunk that begins with what was chosen.
Plan plan_of_steps() {
  return {
      {{0, {3, 1, 4}}, {1, {7}}, {2, {2, 9, 8, 5, 11}}, {3, {6, 6}}},
      {{2, {kChosen}}, {0, {kChosen}}, {3, {kChosen}}, {1, {kChosen}}},
      {{3, {kChosen}}, {4, {12, 13, 14, 15, 16}}, {1, {21}}, {0, {kChosen}}, {2, {kChosen}}},
      {{4, {17, 18}}, {2, {kChosen}}, {1, {kChosen}}, {0, {kChosen, 5}}, {3, {kChosen}}},
      {{4, {kChosen}}, {0, {kChosen}}, {2, {kChosen}}, {1, {kChosen}}},
      {{1, {kChosen}}, {2, {kChosen}}, {4, {kChosen}}, {0, {23}}},
      {{0, {kChosen}}, {4, {kChosen}}},
  };
}

// By the best and by a draw, in turns.
bp_row_request request_of(uint32_t step, uint32_t sequence) {
  bp_row_request request = best_request();
  if (sequence % 2 == 1) {
    request = draw_request(sequence == 1 ? 0 : 12, -std::numeric_limits<float>::infinity(), 0.8f,
                           0.13 + 0.11 * step);
  }
  request.flags = BP_ROW_LOGITS;
  return request;
}

uint32_t row_of(const std::vector<Part>& parts, uint32_t sequence) {
  for (uint32_t r = 0; r < parts.size(); ++r) {
    if (parts[r].sequence == sequence) return r;
  }
  throw Failure("the test's plan names a sequence that the step before has not");
}

class Chain {
 public:
  explicit Chain(Subject& subject) : llama_(make_llama(subject)), session_(subject, *llama_) {
    require_takes_chosen(session_.backend());
  }
  [[nodiscard]] uint32_t max_in_flight() { return session_.backend().memory().max_in_flight; }

  // All steps, with ids of -1-r or with the ids that they stand for.
  std::deque<BatchBuilder>& run(bool by_rows, uint32_t depth) {
    const Plan plan = plan_of_steps();
    StepsInFlight flight(session_.backend(), depth);
    for (uint32_t step = 0; step < plan.size(); ++step) {
      add_batch(plan, step, by_rows);
      const bp_status status = flight.submit(steps_.back(), 1);
      require(status == BP_OK,
              "step " + std::to_string(step) + " of a chain: " + flight.message(status));
      if (!by_rows) flight.collect_all();  // the next step wants the ids
    }
    flight.collect_all();
    return steps_;
  }

 private:
  void add_batch(const Plan& plan, uint32_t step, bool by_rows) {
    BatchBuilder batch;
    RowIndices rows;
    std::vector<bp_row_request> requests;
    for (const Part& part : plan[step]) {
      Ints tokens = part.tokens;
      for (int32_t& token : tokens) {
        if (token != kChosen) continue;
        const uint32_t r = row_of(plan[step - 1], part.sequence);
        token = by_rows ? id_of_row(r) : steps_.back().results(0)[r].token;
      }
      const auto n = static_cast<uint32_t>(tokens.size());
      const Ints blocks = session_.blocks(static_cast<int32_t>(1 + 2 * part.sequence), 2);
      batch.add_sequence(tokens, static_cast<int32_t>(n_cached_[part.sequence]), blocks);
      n_cached_[part.sequence] += n;
      rows.push_back(batch.n_tokens() - 1);
      requests.push_back(request_of(step, part.sequence));
    }
    batch.add_sampled_output(0, rows, TinyLlama::kVocab, requests);
    steps_.push_back(std::move(batch));
  }

  std::unique_ptr<TinyLlama> llama_;
  LlamaSession session_;
  std::array<uint32_t, 5> n_cached_{};
  std::deque<BatchBuilder> steps_;
};

void require_equal(const std::string& what, const BatchBuilder& expected,
                   const BatchBuilder& found) {
  const std::string broken = found.broken_rule();
  require(broken.empty(), what + ": " + broken);
  for (size_t r = 0; r < expected.results(0).size(); ++r) {
    const bp_row_result &e = expected.results(0)[r], &f = found.results(0)[r];
    const std::string row = what + ", row " + std::to_string(r) + ": ";
    require(found.status()[r] == BP_SEQ_OK,
            row + "seq_status is " + std::to_string(found.status()[r]));
    require(e.token == f.token, row + "token is " + std::to_string(f.token) + ", by explicit ids " +
                                    std::to_string(e.token));
    require(std::memcmp(&e, &f, sizeof e) == 0, row + "the result is not that of explicit ids");
  }
  require(same_bits(expected.output(0), found.output(0)),
          what + ": the logits are not those of explicit ids");
}

void equal_explicit_ids(Subject& subject) {
  Chain explicit_ids(subject);
  const auto& expected = explicit_ids.run(false, 1);
  const uint32_t most = explicit_ids.max_in_flight();
  for (uint32_t depth = 1; depth <= std::min(most, 2u); ++depth) {
    Chain chain(subject);
    const auto& found = chain.run(true, depth);
    for (size_t step = 0; step < expected.size(); ++step) {
      require_equal("step " + std::to_string(step) + " by ids of -1-r, with " +
                        std::to_string(depth) + " in flight",
                    expected[step], found[step]);
    }
  }
}

// ---- the table ----------------------------------------------------------------------------------

constexpr uint32_t kTokens = 12;
// Tokens with rows that give none, and the first of them.
constexpr int32_t kInfinite = 9, kNan = 10, kNothing = 11;

constexpr int32_t next_of(int32_t token) {
  return (5 * token + 3) % kInfinite;
}

// Whose logits are rows of a table: after token t comes next_of(t). Program output 0 has a row of
// each token, 1 those asked for. A sequence is one token.
class TableSession {
 public:
  explicit TableSession(Subject& subject)
      : factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
        session_(factory_, nullptr, &subject.params()) {
    require_takes_chosen(session_);
    add_program();
    const auto obstacles = session_.obstacles(builder_.build());
    if (!obstacles.empty()) throw Skip(obstacles.front().second);
    bp_compile_options options = BackendSession::default_options();
    options.max_step_tokens = options.max_output_rows = options.max_sequences = kTokens;
    session_.compile(builder_.build(), options, 4);
    max_in_flight_ = session_.memory().max_in_flight;
  }
  [[nodiscard]] uint32_t max_in_flight() const { return max_in_flight_; }
  [[nodiscard]] BackendSession& session() { return session_; }

  // Of a sequence each; every row is sampled.
  [[nodiscard]] static BatchBuilder batch_of(const Ints& tokens, uint32_t choice = BP_CHOOSE_BEST) {
    BatchBuilder batch = without_outputs(tokens);
    RowIndices rows(tokens.size());
    for (uint32_t r = 0; r < rows.size(); ++r) rows[r] = r;
    sample(batch, 1, rows, choice);
    return batch;
  }
  [[nodiscard]] static BatchBuilder without_outputs(const Ints& tokens) {
    BatchBuilder batch;
    for (const int32_t token : tokens) batch.add_sequence({token}, 0);
    return batch;
  }
  static void sample(BatchBuilder& batch, uint32_t output, const RowIndices& rows,
                     uint32_t choice = BP_CHOOSE_BEST) {
    bp_row_request request = plain_request();
    request.choice = choice;
    batch.add_sampled_output(output, rows, kTokens,
                             std::vector<bp_row_request>(rows.size(), request));
  }

  void run_well(const std::string& what, BatchBuilder& batch) {
    const Status status = session_.run(batch.build(0));
    require(status.ok(), what + ": the step failed: " + status.message());
  }
  void require_refused(const std::string& what, BatchBuilder& batch) {
    const Status status = session_.run(batch.build(0));
    require(status.code() == Code::kInvalidArgument,
            what + ": the step must fail with INVALID_ARGUMENT, it gave code " +
                std::to_string(static_cast<int>(status.code())) + " " + status.message());
    require(!status.message().empty(), what + ": the error has no message");
    for (const bp_row_result& result : batch.results(0)) {
      require(result.token == BatchBuilder::kUnwrittenResult.token,
              what + ": the step failed but wrote a result");
    }
  }

 private:
  void add_program() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    Floats table(kTokens * kTokens, 0.0f);
    const auto at = [&](int32_t row, int32_t column) -> float& {
      return table[static_cast<size_t>(row) * kTokens + static_cast<size_t>(column)];
    };
    for (int32_t t = 0; t < kInfinite; ++t) at(t, next_of(t)) = 5;
    at(kInfinite, 4) = infinity;
    at(kNan, 6) = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(&at(kNothing, 0), kTokens, -infinity);
    const uint32_t logits = builder_.add_table_rows(kTokens, table);
    builder_.add_output(logits);
    builder_.add_selected_output(logits);
  }

  ProgramBuilder builder_;
  bp_backend_factory factory_;
  BackendSession session_;
  uint32_t max_in_flight_ = 1;
};

// Where a token is expected.
void require_token(const std::string& what, const BatchBuilder& batch, size_t output, uint32_t row,
                   int32_t expected) {
  const int32_t found = batch.results(output)[row].token;
  require(found == expected, what + ": row " + std::to_string(row) + " gives token " +
                                 std::to_string(found) + ", expected " + std::to_string(expected));
}

// Of outputs in any order, one of them not sampled.
void rows_are_counted_over_outputs(Subject& subject) {
  TableSession table(subject);
  for (const bool selected_first : {false, true}) {
    BatchBuilder before = TableSession::without_outputs({1, 2, 3, 4, 5});
    if (selected_first) {
      TableSession::sample(before, 1, {0, 3});
      TableSession::sample(before, 0, {1, 2, 4});
    } else {
      before.add_output(0, {0, 1, 2}, kTokens);
      TableSession::sample(before, 1, {1, 4});
    }
    table.run_well("a step that samples", before);
    const Ints chosen_from = selected_first ? Ints{1, 4, 2, 3, 5} : Ints{2, 5};
    Ints ids, expected;
    for (auto r = static_cast<uint32_t>(chosen_from.size()); r-- > 0;) {
      ids.push_back(id_of_row(r));
      expected.push_back(next_of(next_of(chosen_from[r])));
    }
    BatchBuilder after = TableSession::batch_of(ids);
    table.run_well("a step that begins with what was chosen", after);
    for (uint32_t r = 0; r < expected.size(); ++r) {
      require_token(selected_first ? "after two sampled outputs" : "after one of two outputs",
                    after, 0, r, expected[r]);
    }
  }
}

void refuses_rows_that_are_not(Subject& subject) {
  TableSession table(subject);
  BatchBuilder first = TableSession::batch_of({id_of_row(0)});
  table.require_refused("an id of -1 in the first step", first);
  BatchBuilder before = TableSession::without_outputs({1, 2, 3});
  before.add_sampled_output(1, {0, 1, 2}, kTokens,
                            {best_request(), plain_request(), best_request()});
  table.run_well("a step that samples", before);
  for (const int32_t bad : {id_of_row(1), id_of_row(3), std::numeric_limits<int32_t>::min()}) {
    BatchBuilder batch = TableSession::batch_of({id_of_row(0), bad, 4});
    table.require_refused("an id of " + std::to_string(bad) + " after rows 0 and 2 of 3 chose",
                          batch);
  }
  BatchBuilder after = TableSession::batch_of({id_of_row(2), id_of_row(0)}, BP_CHOOSE_NONE);
  TableSession::sample(after, 0, {0, 1});
  table.run_well("a step after refused ones", after);
  require_token("a step after refused ones", after, 1, 0, next_of(next_of(3)));
  require_token("a step after refused ones", after, 1, 1, next_of(next_of(1)));
  BatchBuilder plain = TableSession::without_outputs({1});
  table.run_well("a step without outputs", plain);
  BatchBuilder last = TableSession::batch_of({id_of_row(0)});
  table.require_refused("an id of -1 after a step without outputs", last);
}

void refuses_steps_beyond_max_in_flight(Subject& subject) {
  TableSession table(subject);
  const uint32_t most = table.max_in_flight();
  if (most < 2 || most > 64) {
    throw Skip("max_in_flight is " + std::to_string(most) + ", the test is for 2 to 64");
  }
  StepsInFlight flight(table.session(), most);
  std::deque<BatchBuilder> steps;
  for (uint32_t i = 0; i < most; ++i) {
    steps.push_back(TableSession::batch_of({i == 0 ? 1 : id_of_row(0)}));
    const bp_status status = flight.submit_beyond(steps.back(), 0);
    require(status == BP_OK, "step " + std::to_string(i) + " of " + std::to_string(most) +
                                 " in flight: " + flight.message(status));
  }
  BatchBuilder beyond = TableSession::batch_of({id_of_row(0)});
  require(flight.submit_beyond(beyond, 0) == BP_INVALID_ARGUMENT,
          "a submit beyond max_in_flight must give INVALID_ARGUMENT");
  require(flight.collect(1) == BP_INVALID_ARGUMENT,
          "a collect of the second step in flight before the first must give INVALID_ARGUMENT");
  flight.collect_all();
  BatchBuilder last = TableSession::batch_of({id_of_row(0)});
  table.run_well("a step after a refused submit", last);
  int32_t token = 1;
  for (const BatchBuilder& step : steps) {
    token = next_of(token);
    require_token("a step in flight beside others", step, 0, 0, token);
  }
  require_token("a step after a refused submit", last, 0, 0, next_of(token));
}

// What must be right of a step in which the sequences of `good` name what a token came of.
void require_good(const std::string& what, const BatchBuilder& batch, const Ints& good,
                  const Ints& expected) {
  for (size_t i = 0; i < good.size(); ++i) {
    const auto s = static_cast<uint32_t>(good[i]);
    require(batch.status()[s] == BP_SEQ_OK, what + ": seq_status of sequence " + std::to_string(s) +
                                                " is " + std::to_string(batch.status()[s]));
    require_token(what, batch, 0, s, expected[i]);
  }
}

// Two steps after rows of NaN, +inf and -inf alone, a stopped sequence and a failed one.
void harm_those_alone_that_name_them(Subject& subject) {
  TableSession table(subject);
  for (uint32_t depth = 1; depth <= std::min(table.max_in_flight(), 2u); ++depth) {
    const std::string where = " with " + std::to_string(depth) + " in flight";
    std::deque<BatchBuilder> steps;
    steps.push_back(TableSession::batch_of({kNan, 1, kNothing, 2, kInfinite, 99, 5}));
    steps.back().set_stop({0, 0, 0, 1, 0, 0, 0});
    Ints names;
    for (uint32_t r = 7; r-- > 0;) names.push_back(id_of_row(r));
    names.push_back(3);
    steps.push_back(TableSession::batch_of(names));
    steps.push_back(
        TableSession::batch_of({id_of_row(7), id_of_row(1), id_of_row(5), id_of_row(0)}));
    StepsInFlight flight(table.session(), depth);
    for (BatchBuilder& step : steps) {
      const bp_status status = flight.submit(step, 0);
      require(status == BP_OK,
              "a step after rows that give no token" + where + ": " + flight.message(status));
    }
    flight.collect_all();
    require_good("a step beside rows that give no token" + where, steps[0], {1, 6},
                 {next_of(1), next_of(5)});
    require_good("a step after rows that give no token" + where, steps[1], {5, 0, 7},
                 {next_of(next_of(1)), next_of(next_of(5)), next_of(3)});
    require_good("two steps after rows that give no token" + where, steps[2], {0, 2, 3},
                 {next_of(next_of(3)), next_of(next_of(next_of(1))), next_of(next_of(next_of(5)))});
  }
}

}  // namespace

void add_chosen_steps_tests(Tests& tests) {
  const Test listed[] = {
      {"steps-sampling-chosen", "steps",
       "steps that begin with what the step before chose equal those by explicit ids",
       equal_explicit_ids},
      {"steps-sampling-chosen-rows", "steps",
       "ids name rows of all sampled outputs, in the order of the batch",
       rows_are_counted_over_outputs},
      {"steps-sampling-chosen-limits", "steps", "ids of rows that chose nothing are refused",
       refuses_rows_that_are_not},
      {"steps-sampling-chosen-in-flight", "steps",
       "as many steps are in flight as memory says, collected in order",
       refuses_steps_beyond_max_in_flight},
      {"steps-sampling-chosen-apart", "steps",
       "a row that gives no token harms the sequence alone that names it",
       harm_those_alone_that_name_them},
  };
  tests.insert(tests.end(), std::begin(listed), std::end(listed));
}

}  // namespace bp::conformance

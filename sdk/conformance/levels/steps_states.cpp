// State of sequences: carried from step to step, begun with zeros, shared, copied, cleared.

#include <algorithm>

#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/compare.hpp"
#include "sdk/conformance/support/recurrent_session.hpp"
#include "sdk/conformance/support/reference_factory.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kEntries = RecurrentSession::kEntries, kOut = RecurrentSession::kOut;
constexpr ErrorBound kBound{1e-5, 1e-4};

using Tokens = std::vector<int32_t>;
using Rows = RecurrentSession::Rows;

Tokens some_tokens(uint32_t seed, uint32_t n) {
  Tokens tokens;
  for (uint32_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<int32_t>((i * i * 7 + seed * 13 + i) % RecurrentSession::kVocab));
  }
  return tokens;
}
Tokens part(const Tokens& tokens, size_t begin, size_t end) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

// The backend under test, and what the reference says of whole sequences.
class StateFixture {
 public:
  explicit StateFixture(Subject& subject)
      : params_(subject.params()),
        factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
        session_(factory_, &params_),
        reference_(kReference, nullptr) {}

  RecurrentSession& session() { return session_; }

  // `found` are the rows of tokens [begin, ...).
  void expect(const std::string& what, const Tokens& tokens, size_t begin, const Rows& found) {
    const Rows whole = reference_.one(tokens, 0, 0, 1);
    const auto from = whole.begin() + static_cast<std::ptrdiff_t>(begin * kOut);
    const Rows expected(from, from + static_cast<std::ptrdiff_t>(found.size()));
    const std::string wrong = compare(expected, found, kBound, kOut);
    if (!wrong.empty()) throw Failure(what + ": " + wrong);
  }

 private:
  bp_params params_;
  bp_backend_factory factory_;
  RecurrentSession session_;
  RecurrentSession reference_;
};

void chunks_carry_state(StateFixture& f) {
  const Tokens tokens = some_tokens(1, 70);
  f.expect("a whole prompt", tokens, 0, f.session().one(tokens, 0, 0, 3));
  for (const uint32_t chunk : {1u, 2u, 3u, 7u, 64u}) {
    for (uint32_t at = 0; at < tokens.size(); at += chunk) {
      const size_t end = std::min<size_t>(at + chunk, tokens.size());
      const Rows found = f.session().one(part(tokens, at, end), at, at == 0 ? 0 : 5, 5);
      f.expect("chunks of " + std::to_string(chunk) + " tokens, at position " + std::to_string(at),
               tokens, at, found);
    }
  }
}

void sequences_keep_apart(StateFixture& f) {
  const Tokens one = some_tokens(2, 12), two = some_tokens(3, 9), three = some_tokens(4, 6);
  f.session().one(part(one, 0, 11), 0, 0, 4);
  f.session().one(part(two, 0, 4), 0, 0, 9);
  const auto found = f.session().step(
      {{part(two, 4, 9), 4, 9, 9}, {three, 0, 0, 2}, {part(one, 11, 12), 11, 4, 7}});
  f.expect("the first of three sequences", two, 4, found[0]);
  f.expect("the second, which begins", three, 0, found[1]);
  f.expect("the third", one, 11, found[2]);
}

// A step can be taken back, and several sequences go on from one entry.
void entries_read_stay(StateFixture& f) {
  Tokens prompt = some_tokens(5, 8);
  f.session().one(prompt, 0, 0, 1);
  Tokens one = prompt, two = prompt;
  one.push_back(3);
  two.push_back(30);
  for (int round = 0; round < 2; ++round) {
    const auto found = f.session().step({{{3}, 8, 1, 2}, {{30}, 8, 1, 6}});
    f.expect("the first of two that go on from one state", one, 8, found[0]);
    f.expect("the second of two that go on from one state", two, 8, found[1]);
  }
}

void entries_begin_with_zeros(StateFixture& f) {
  f.session().one(some_tokens(6, 20), 0, 0, 8);
  const Tokens tokens = some_tokens(7, 5);
  f.expect("a sequence in an entry that another one left", tokens, 0,
           f.session().one(tokens, 0, 0, 8));
}

void ops_copy_and_clear(StateFixture& f) {
  const Tokens tokens = some_tokens(8, 10);
  f.session().one(part(tokens, 0, 9), 0, 0, 1);
  f.session().one(some_tokens(9, 9), 0, 0, 2);
  const auto of_both = [](uint32_t action, int32_t source, int32_t destination) {
    std::vector<bp_block_op> ops;
    for (const uint32_t slot : {0u, 1u}) {
      ops.push_back({action, BP_BLOCK_OF_STATE, slot, source, destination});
    }
    return ops;
  };
  const auto found = f.session().step({{{tokens[9]}, 9, 2, 2}}, of_both(BP_BLOCK_COPY, 1, 2));
  f.expect("a sequence that goes on in a copied entry", tokens, 9, found[0]);
  const auto kept = f.session().one({tokens[9]}, 9, 1, 1);
  f.expect("the sequence that was copied", tokens, 9, kept);
  const Tokens fresh = some_tokens(10, 4);
  const auto cleared = f.session().step({{fresh, 0, 2, 2}}, of_both(BP_BLOCK_CLEAR, 0, 2));
  f.expect("a sequence that goes on in a cleared entry", fresh, 0, cleared[0]);
}

void wrong_entries_are_refused(StateFixture& f) {
  const auto refuse = [&](const std::string& what, const std::vector<RecurrentPiece>& pieces) {
    BatchBuilder batch;
    const Status status = f.session().run(batch, pieces);
    require(status.code() == Code::kInvalidArgument,
            what + " is answered with " + (status.ok() ? "BP_OK" : status.message()) +
                ", expected BP_INVALID_ARGUMENT");
  };
  refuse("state_out 0", {{{1}, 0, 0, 0}});
  refuse("state_in past the last entry", {{{1}, 0, static_cast<int32_t>(kEntries), 1}});
  refuse("state_out past the last entry", {{{1}, 0, 0, static_cast<int32_t>(kEntries)}});
  refuse("a negative state_in", {{{1}, 0, -1, 1}});
  refuse("an entry that two sequences write", {{{1}, 0, 0, 3}, {{2}, 0, 0, 3}});
  refuse("an entry that one sequence reads and another one writes",
         {{{1}, 1, 4, 4}, {{2}, 1, 4, 5}});
}

}  // namespace

void add_state_steps_tests(Tests& tests) {
  struct Listed {
    const char *name, *description;
    void (*run)(StateFixture&);
  };
  const Listed listed[] = {
      {"steps-state-chunks", "state goes on from chunk to chunk", chunks_carry_state},
      {"steps-state-batch", "sequences of a step have states of their own", sequences_keep_apart},
      {"steps-state-read", "an entry that is only read stays as it is", entries_read_stay},
      {"steps-state-zeros", "entry 0 stands for zeros, whatever the written entry held",
       entries_begin_with_zeros},
      {"steps-state-block-ops", "entries are copied and cleared before any token",
       ops_copy_and_clear},
      {"steps-state-refused", "entries out of range or in conflict are refused",
       wrong_entries_are_refused},
  };
  for (const Listed& test : listed) {
    tests.push_back({test.name, "steps", test.description, [run = test.run](Subject& subject) {
                       StateFixture fixture(subject);
                       run(fixture);
                     }});
  }
}

}  // namespace bp::conformance

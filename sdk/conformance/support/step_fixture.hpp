#pragma once
// The small transformer on the backend under test and on the reference, for tests that say what
// must not change a result.

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/transformer_session.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

// The bound of logits three layers deep.
[[nodiscard]] ErrorBound model_bound(bp_dtype weights, bp_dtype kv);

class StepFixture {
 public:
  StepFixture(Subject& subject, const TransformerSession::Options& options);

  [[nodiscard]] TransformerSession& session() { return session_; }
  [[nodiscard]] TransformerSession& reference() { return reference_; }
  [[nodiscard]] uint32_t block_size() const { return block_size_; }

  // Random ids; the same for the same seed of the tool and `name`.
  [[nodiscard]] Tokens tokens(const std::string& name, size_t n) const;
  [[nodiscard]] Blocks blocks(int32_t first, size_t n_tokens, int32_t step = 1) const;

  // The logits of every token, computed alone and in one step, by the backend in blocks at the end
  // of the cache; checked against the reference.
  const Floats& alone(const Tokens& tokens);
  // Rows [begin, end) of it.
  Floats alone(const Tokens& tokens, size_t begin, size_t end);

  // Throws Failure where `found`, logits of tokens [begin, ...), is not what alone() gives.
  void expect(const std::string& what, const Tokens& tokens, size_t begin, const Floats& found);
  void expect_equal(const std::string& what, const Floats& expected, const Floats& found) const;

 private:
  // "" where the logits of tokens [begin, ...) are equal, else what is wrong and where.
  [[nodiscard]] std::string wrong_at(size_t begin, const Floats& expected,
                                     const Floats& found) const;

  std::string layout_;  // "with a window of 24 in layer 1"
  uint64_t seed_;
  ErrorBound bound_;
  std::vector<OpSpec> specs_;
  bp_backend_factory factory_;
  TransformerSession session_, reference_;
  uint32_t block_size_;
  std::map<Tokens, Floats> alone_;
};

[[nodiscard]] Tokens slice(const Tokens& tokens, size_t begin, size_t end);

// Runs the test on a model without windows and on one with (where the backend takes it), of the
// most exact types that it takes.
void for_both_layouts(Subject& subject, const std::function<void(StepFixture&)>& test);
void for_windows(Subject& subject, const std::function<void(StepFixture&)>& test);
// As for_both_layouts, with transfers; throws Skip where the backend offers none.
void for_transfers(Subject& subject, const std::function<void(StepFixture&)>& test);

}  // namespace bp::conformance

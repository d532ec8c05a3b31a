// Attention under every instruction set: spans split between workers, and slots of a block that
// hold NaN.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backplane/dtype.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr bp_dtype kKvTypes[] = {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_Q8_0,
                                 BP_DTYPE_Q4_0};
constexpr uint32_t kVocab = TinyLlama::kVocab;
using Tokens = std::vector<int32_t>;
using Floats = std::vector<float>;

class Session {
 public:
  Session(const NamedFactory& backend, bp_dtype kv, uint32_t n_threads, uint32_t window = 0,
          bool poisoned = false)
      : llama_(BP_DTYPE_F32, window), session_(*backend.factory) {
    if (poisoned) {
      auto* table = static_cast<float*>(const_cast<void*>(llama_.builder().weight_part(0).data));
      std::fill_n(table + kPoison * TinyLlama::kDim, TinyLlama::kDim, std::nanf(""));
    }
    bp_compile_options options = BackendSession::default_options();
    options.n_threads = n_threads;
    options.max_context = 2048;
    options.max_step_tokens = 2048;
    options.max_output_rows = 2048;
    options.k_dtype = options.v_dtype = kv;
    session_.compile(llama_.program(), options, 40);
  }

  Floats logits(const Tokens& tokens, int32_t first) {
    BatchBuilder batch;
    Tokens blocks((static_cast<size_t>(first) + tokens.size() + 63) / 64);
    std::iota(blocks.begin(), blocks.end(), 1);
    batch.add_sequence(tokens, first, blocks);
    std::vector<uint32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0u);
    batch.add_output(0, rows, kVocab);
    const Status status = session_.run(batch.build());
    EXPECT_TRUE(status.ok()) << status.message();
    Floats found = batch.output(0);
    // The head is the embedding: this logit is NaN by itself where the embedding is poisoned.
    for (size_t r = 0; r < tokens.size(); ++r) found[r * kVocab + kPoison] = 0;
    return found;
  }

  static constexpr int32_t kPoison = 3;

 private:
  TinyLlama llama_;
  BackendSession session_;
};

Tokens clean_tokens(uint32_t n) {
  Tokens tokens(n);
  for (uint32_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(4 + (i * 7 + i * i) % 36);
  return tokens;
}

// Of a few tokens at a depth of several spans, alone in the batch: workers share its spans.
TEST(CpuAttention, SplittingSpansBetweenWorkersChangesNothing) {
  constexpr uint32_t kLong = 1100, kLast = 6;
  const Tokens tokens = clean_tokens(kLong);
  for (const NamedFactory& backend : cpu_factories()) {
    for (const bp_dtype kv : {BP_DTYPE_BF16, BP_DTYPE_Q8_0}) {
      for (const uint32_t window : {0u, 600u}) {
        SCOPED_TRACE(backend.name + " " + std::string(dtype_name(kv)));
        Session whole(backend, kv, 1, window);
        const Floats all = whole.logits(tokens, 0);
        const Floats expected(all.end() - kLast * kVocab, all.end());
        for (const uint32_t n_threads : {2u, 3u, 8u}) {
          Session split(backend, kv, n_threads, window);
          split.logits({tokens.begin(), tokens.end() - kLast}, 0);
          Floats found;
          uint32_t done = kLong - kLast;
          for (const uint32_t n : {1u, 3u, 2u}) {
            const Tokens part(tokens.begin() + done, tokens.begin() + done + n);
            const Floats own = split.logits(part, static_cast<int32_t>(done));
            found.insert(found.end(), own.begin(), own.end());
            done += n;
          }
          EXPECT_EQ(found, expected) << n_threads << " threads, window " << window;
        }
      }
    }
  }
}

TEST(CpuAttention, ANanReachesNoEarlierPosition) {
  constexpr uint32_t kPoisoned = 70;
  Tokens tokens = clean_tokens(100);
  for (const NamedFactory& backend : cpu_factories()) {
    for (const bp_dtype kv : kKvTypes) {
      SCOPED_TRACE(backend.name + " " + std::string(dtype_name(kv)));
      const Floats expected = Session(backend, kv, 2).logits(tokens, 0);
      Tokens other = tokens;
      other[kPoisoned] = Session::kPoison;
      Session session(backend, kv, 2, 0, true);
      const Floats found = session.logits(other, 0);
      EXPECT_EQ(Floats(found.begin(), found.begin() + kPoisoned * kVocab),
                Floats(expected.begin(), expected.begin() + kPoisoned * kVocab));
      EXPECT_TRUE(std::isnan(found.back()));
      // Then the same blocks hold NaN beside what is used of them.
      Floats again = session.logits({tokens.begin(), tokens.begin() + 65}, 0);
      const Floats more = session.logits({tokens.begin() + 65, tokens.begin() + 69}, 65);
      again.insert(again.end(), more.begin(), more.end());
      EXPECT_EQ(again, Floats(expected.begin(), expected.begin() + 69 * kVocab));
    }
  }
}

}  // namespace
}  // namespace bp::test

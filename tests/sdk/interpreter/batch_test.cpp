// What must not change a sequence's logits by a single bit: its neighbours in the batch, the ids of
// its blocks, how its prompt is cut into chunks, blocks it shares, and the number of threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/reference_factory.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr uint32_t kBlockSize = 4, kBlocks = 32, kVocab = TinyLlama::kVocab;
using Floats = std::vector<float>;
using Tokens = std::vector<int32_t>;
using Blocks = std::vector<int32_t>;

Tokens tokens_of(uint32_t seed, uint32_t n) {
  Tokens tokens(n);
  for (uint32_t i = 0; i < n; ++i)
    tokens[i] = static_cast<int32_t>((seed * 13 + i * 7 + i * i) % kVocab);
  return tokens;
}

class Batches : public testing::Test {
 protected:
  Batches() : session_(kReference) { compile(session_, model_.program()); }

  static bp_compile_options options() {
    bp_compile_options options = BackendSession::default_options();
    options.block_size = kBlockSize;
    options.max_context = 64;
    return options;
  }
  static void compile(BackendSession& session, const bp_program& program) {
    session.compile(program, options(), kBlocks);
  }

  static BatchBuilder one(const Tokens& tokens, int32_t first, const Blocks& blocks) {
    BatchBuilder batch;
    batch.add_sequence(tokens, first, blocks);
    Blocks rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    batch.add_output(0, {rows.begin(), rows.end()}, kVocab);
    return batch;
  }
  // Logits of every token.
  Floats run(const Tokens& tokens, int32_t first, const Blocks& blocks) {
    BatchBuilder batch = one(tokens, first, blocks);
    expect_ok(session_.run(batch.build()));
    EXPECT_EQ(batch.status(), std::vector<int32_t>{BP_SEQ_OK});
    return batch.output(0);
  }
  static void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }
  static Floats row(const Floats& logits, size_t i) {
    return {logits.begin() + static_cast<long>(i * kVocab),
            logits.begin() + static_cast<long>((i + 1) * kVocab)};
  }

  TinyLlama model_;
  BackendSession session_;
};

TEST_F(Batches, LogitsDependOnEveryEarlierToken) {
  const Tokens tokens = tokens_of(1, 9);
  const Floats logits = run(tokens, 0, {1, 2, 3});
  for (size_t changed = 0; changed < tokens.size(); ++changed) {
    Tokens other = tokens;
    other[changed] = (other[changed] + 1) % static_cast<int32_t>(kVocab);
    const Floats found = run(other, 0, {1, 2, 3});
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(row(found, i) == row(logits, i), i < changed) << changed << " " << i;
    }
  }
}

TEST_F(Batches, ChunksEqualTheWholePrompt) {
  const Tokens tokens = tokens_of(2, 11);
  const Floats whole = run(tokens, 0, {1, 2, 3});
  for (size_t cut = 1; cut < tokens.size(); ++cut) {
    Floats chunks = run({tokens.begin(), tokens.begin() + static_cast<long>(cut)}, 0, {4, 5, 6});
    const Floats rest = run({tokens.begin() + static_cast<long>(cut), tokens.end()},
                            static_cast<int32_t>(cut), {4, 5, 6});
    chunks.insert(chunks.end(), rest.begin(), rest.end());
    EXPECT_EQ(chunks, whole) << "cut at " << cut;
  }
}

TEST_F(Batches, BlockIdsDoNotMatter) {
  const Tokens tokens = tokens_of(3, 10);
  const Floats expected = run(tokens, 0, {1, 2, 3});
  EXPECT_EQ(run(tokens, 0, {31, 7, 19}), expected);
  EXPECT_EQ(run(tokens, 0, {3, 2, 1}), expected);
}

TEST_F(Batches, OrderOfSequencesDoesNotMatter) {
  const std::vector<uint32_t> lengths = {7, 1, 12, 4};
  std::vector<Floats> alone;
  for (uint32_t s = 0; s < lengths.size(); ++s) {
    alone.push_back(run(tokens_of(s, lengths[s]), 0, {1, 2, 3}));
  }
  std::vector<uint32_t> order = {0, 1, 2, 3};
  do {
    BatchBuilder batch;
    std::vector<uint32_t> rows;
    Floats expected;
    for (const uint32_t s : order) {
      const auto first = static_cast<int32_t>(1 + 3 * s);
      batch.add_sequence(tokens_of(s, lengths[s]), 0, {first, first + 1, first + 2});
      for (uint32_t i = 0; i < lengths[s]; ++i) rows.push_back(static_cast<uint32_t>(rows.size()));
      expected.insert(expected.end(), alone[s].begin(), alone[s].end());
    }
    batch.add_output(0, rows, kVocab);
    expect_ok(session_.run(batch.build()));
    EXPECT_EQ(batch.output(0), expected);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Batches, DecodesMixWithPrefills) {
  const Tokens a = tokens_of(5, 9), b = tokens_of(6, 6);
  const Floats whole_a = run(a, 0, {1, 2, 3}), whole_b = run(b, 0, {4, 5});
  run({a.begin(), a.end() - 1}, 0, {1, 2, 3});
  BatchBuilder batch;
  batch.add_sequence({a.back()}, 8, {1, 2, 3});
  batch.add_sequence(b, 0, {6, 7});
  batch.add_output(0, {0, 6}, kVocab);
  expect_ok(session_.run(batch.build()));
  EXPECT_EQ(row(batch.output(0), 0), row(whole_a, 8));
  EXPECT_EQ(row(batch.output(0), 1), row(whole_b, 5));
}

TEST_F(Batches, SequencesShareTheBlocksOfAPrefix) {
  const Tokens prefix = tokens_of(7, 8);
  Tokens a = prefix, b = prefix;
  a.insert(a.end(), {1, 2, 3});
  b.insert(b.end(), {4, 5});
  const Floats alone_a = run(a, 0, {1, 2, 3}), alone_b = run(b, 0, {4, 5, 6});
  run(prefix, 0, {10, 11});
  BatchBuilder batch;
  batch.add_sequence({1, 2, 3}, 8, {10, 11, 12});
  batch.add_sequence({4, 5}, 8, {10, 11, 13});
  batch.add_output(0, {2, 4}, kVocab);
  expect_ok(session_.run(batch.build()));
  EXPECT_EQ(row(batch.output(0), 0), row(alone_a, 10));
  EXPECT_EQ(row(batch.output(0), 1), row(alone_b, 9));
}

TEST_F(Batches, BlockOpsCopyAndClearBeforeTheStep) {
  const Tokens tokens = tokens_of(8, 7);
  const Floats whole = run(tokens, 0, {1, 2});
  BatchBuilder copied;
  copied.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 1, 20});
  copied.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, 2, 21});
  copied.add_block_op({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, 0, 0, 1});
  copied.add_sequence({tokens.back()}, 6, {20, 21});
  copied.add_output(0, {0}, kVocab);
  expect_ok(session_.run(copied.build()));
  EXPECT_EQ(copied.output(0), row(whole, 6));
  EXPECT_NE(run({tokens.back()}, 6, {1, 2}), row(whole, 6)) << "block 1 was not cleared";
}

// Stale content beyond the context, and the null block, are never looked at.
TEST_F(Batches, ContentOutsideTheContextDoesNotMatter) {
  const Tokens tokens = tokens_of(9, 5);
  const Floats expected = run(tokens, 0, {1, 2});
  run(tokens_of(10, 16), 0, {5, 6, 7, 8});
  EXPECT_EQ(run(tokens, 0, {5, 6}), expected);
  EXPECT_EQ(run(tokens, 0, {5, 6, 0, 0, 0}), expected);
}

TEST_F(Batches, TheNullBlockIsNeverWritten) {
  const Floats before = run({5}, 6, {0, 2});
  run(tokens_of(16, 12), 0, {3, 4, 5});
  BatchBuilder failing = one({1, static_cast<int32_t>(kVocab)}, 0, {6});
  expect_ok(session_.run(failing.build()));
  run(tokens_of(17, 1), 4, {0, 7});
  EXPECT_EQ(run({5}, 6, {0, 2}), before);
}

TEST(Windows, BlocksBeforeTheWindowMayBeNull) {
  TinyLlama model(BP_DTYPE_F32, 4);
  BackendSession session(kReference);
  bp_compile_options options = BackendSession::default_options();
  options.block_size = kBlockSize;
  session.compile(model.program(), options, kBlocks);
  const auto step = [&](const Tokens& tokens, int32_t first, const Blocks& blocks) {
    BatchBuilder batch;
    batch.add_sequence(tokens, first, blocks);
    batch.add_output(0, {batch.n_tokens() - 1}, kVocab);
    const Status status = session.run(batch.build());
    EXPECT_TRUE(status.ok()) << status.message();
    return batch.output(0);
  };
  const Tokens tokens = tokens_of(11, 14);
  const Floats whole = step(tokens, 0, {1, 2, 3, 4});
  step({tokens.begin(), tokens.end() - 1}, 0, {5, 6, 7, 8});
  EXPECT_EQ(step({tokens.back()}, 13, {0, 0, 7, 8}), whole);
}

TEST_F(Batches, StoppedSequencesLeaveTheirOutputsAndTheOthers) {
  const Tokens a = tokens_of(12, 6), b = tokens_of(13, 5);
  const Floats alone_b = run(b, 0, {4, 5});
  BatchBuilder batch;
  batch.add_sequence(a, 0, {1, 2});
  batch.add_sequence(b, 0, {6, 7});
  batch.add_output(0, {5, 10}, kVocab, -7.0f);
  batch.set_stop({1, 0});
  expect_ok(session_.run(batch.build()));
  EXPECT_EQ(batch.status(), (std::vector<int32_t>{BP_SEQ_STOPPED, BP_SEQ_OK}));
  EXPECT_EQ(row(batch.output(0), 0), Floats(kVocab, -7.0f));
  EXPECT_EQ(row(batch.output(0), 1), row(alone_b, 4));
}

TEST_F(Batches, ABadTokenFailsItsSequenceOnly) {
  const Tokens good = tokens_of(14, 5);
  const Floats alone = run(good, 0, {4, 5});
  for (const int32_t bad : {static_cast<int32_t>(kVocab), std::numeric_limits<int32_t>::max()}) {
    BatchBuilder batch;
    batch.add_sequence({1, bad, 2}, 0, {1});
    batch.add_sequence(good, 0, {6, 7});
    batch.add_output(0, {2, 7}, kVocab, -7.0f);
    expect_ok(session_.run(batch.build()));
    EXPECT_EQ(batch.status(), (std::vector<int32_t>{BP_SEQ_FAILED, BP_SEQ_OK}));
    EXPECT_EQ(row(batch.output(0), 0), Floats(kVocab, -7.0f));
    EXPECT_EQ(row(batch.output(0), 1), row(alone, 4));
  }
}

TEST(Nan, IsDataAndStaysWithinItsSequence) {
  TinyLlama model;
  // The embedding of token 3 alone.
  auto& part = model.builder().weight_part(0);
  auto* table = static_cast<float*>(const_cast<void*>(part.data));
  std::fill_n(table + 3 * TinyLlama::kDim, TinyLlama::kDim, std::nanf(""));
  BackendSession session(kReference);
  session.compile(model.program(), BackendSession::default_options(), kBlocks);
  const auto run = [&](BatchBuilder& batch) {
    const Status status = session.run(batch.build());
    EXPECT_TRUE(status.ok()) << status.message();
  };
  BatchBuilder alone, both;
  alone.add_sequence({4, 5}, 0, {2});
  alone.add_output(0, {1}, kVocab);
  run(alone);
  both.add_sequence({1, 3, 2}, 0, {1});
  both.add_sequence({4, 5}, 0, {2});
  both.add_output(0, {0, 2, 4}, kVocab);
  run(both);
  EXPECT_EQ(both.status(), (std::vector<int32_t>{BP_SEQ_OK, BP_SEQ_OK}));
  const auto is_nan = [](float x) { return std::isnan(x); };
  const auto begin = both.output(0).begin();
  // The tied head multiplies every row with the NaN row too: column 3.
  EXPECT_EQ(std::count_if(begin, begin + kVocab, is_nan), 1);
  EXPECT_EQ(std::count_if(begin + kVocab, begin + 2 * kVocab, is_nan), kVocab);
  EXPECT_EQ(std::memcmp(&*begin + 2 * kVocab, alone.output(0).data(), kVocab * sizeof(float)), 0);
}

TEST_F(Batches, DecodedAndCachedWeightsGiveTheSame) {
  for (const bp_dtype dtype : {BP_DTYPE_F16, BP_DTYPE_Q8_0}) {
    std::vector<Floats> results;
    for (const char* mode : {"never", "always"}) {
      TinyLlama model(dtype);
      const bp_param param{to_bp_str("cache_weights"), BP_TYPE_STRING, 0, 0, 0, to_bp_str(mode)};
      auto params = make_growable<bp_params>();
      params.n_params = 1;
      params.params = &param;
      BackendSession session(kReference, nullptr, &params);
      compile(session, model.program());
      BatchBuilder batch = one(tokens_of(15, 6), 0, {1, 2});
      expect_ok(session.run(batch.build()));
      results.push_back(batch.output(0));
      EXPECT_EQ(session.memory().weights_bytes > 20000, std::string(mode) == "always");
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

}  // namespace
}  // namespace bp::test

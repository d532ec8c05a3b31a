// A step waits for no worker that has nothing in hand: it ends, with the same results, where
// workers come one after another, or never.

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>

#include "backplane/ext/threads.h"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr uint32_t kVocab = TinyLlama::kVocab;

// Runs the workers named, one after another, in the thread that calls.
class OneAfterAnother {
 public:
  OneAfterAnother(uint32_t n_threads, std::vector<uint32_t> order) : order_(std::move(order)) {
    threads_.n_threads = n_threads;
    threads_.user = this;
    threads_.run_team = [](void* user, uint32_t n, auto fn, void* argument) {
      for (const uint32_t worker : static_cast<OneAfterAnother*>(user)->order_) {
        fn(argument, worker, n, nullptr);
      }
    };
    threads_.barrier = [](bp_team*) { ADD_FAILURE() << "nobody would come"; };
    threads_.parallel_for = [](void*, uint64_t n, auto fn, void* argument) {
      for (uint64_t i = 0; i < n; ++i) fn(argument, i);
    };
    host_.user = &threads_;
    host_.get_extension = [](void* user, const char* id) -> const void* {
      return std::string_view(id) == BP_THREADS_ID ? user : nullptr;
    };
  }
  [[nodiscard]] const bp_host* host() const { return &host_; }

 private:
  std::vector<uint32_t> order_;
  bp_threads threads_ = make_growable<bp_threads>();
  bp_host host_ = make_growable<bp_host>();
};

// Logits of a prompt and of the token after it.
std::vector<float> logits(const bp_host* host, bp_dtype dtype) {
  TinyLlama llama(dtype);
  BackendSession session(*cpu_factories().front().factory, host);
  session.compile(llama.program(), BackendSession::default_options(), 8);
  std::vector<float> all;
  std::vector<int32_t> tokens(70);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int32_t& token : tokens) token = token * 7 % static_cast<int32_t>(kVocab);
  for (const uint32_t first : {0u, 69u}) {
    const uint32_t end = first == 0 ? 69 : 70;
    BatchBuilder batch;
    batch.add_sequence({tokens.begin() + first, tokens.begin() + end}, static_cast<int32_t>(first),
                       {1, 2});
    batch.add_output(0, {end - first - 1}, kVocab);
    EXPECT_TRUE(session.run(batch.build()).ok());
    all.insert(all.end(), batch.output(0).begin(), batch.output(0).end());
  }
  return all;
}

// Logits of one token each of two sequences that are longer than a span of attention, which workers
// share by spans.
std::vector<float> logits_of_long_sequences(const bp_host* host) {
  constexpr uint32_t kLong = 600, kBlocks = kLong / 64 + 1;
  TinyLlama llama(BP_DTYPE_F32);
  BackendSession session(*cpu_factories().front().factory, host);
  bp_compile_options options = BackendSession::default_options();
  options.max_context = options.max_step_tokens = 1024;
  session.compile(llama.program(), options, 2 * kBlocks + 1);
  std::vector<int32_t> tokens(kLong), blocks[2] = {std::vector<int32_t>(kBlocks), {}};
  for (uint32_t i = 0; i < kLong; ++i) tokens[i] = static_cast<int32_t>(i * 7 % kVocab);
  std::iota(blocks[0].begin(), blocks[0].end(), 1);
  blocks[1] = blocks[0];
  for (int32_t& block : blocks[1]) block += kBlocks;
  for (const auto& own : blocks) {
    BatchBuilder batch;
    batch.add_sequence(tokens, 0, own);
    EXPECT_TRUE(session.run(batch.build()).ok());
  }
  BatchBuilder batch;
  for (int32_t s = 0; s < 2; ++s) batch.add_sequence({5 + s}, kLong, blocks[s]);
  batch.add_output(0, {0, 1}, kVocab);
  EXPECT_TRUE(session.run(batch.build()).ok());
  return batch.output(0);
}

// Heads of one op attention whose values are so wide that what is gathered of a few spans fills the
// memory for it.
struct WideAttention {
  static constexpr uint32_t kHeads = 50, kKvHeads = 2, kKeyDim = 32, kValueDim = 512, kIds = 16;
  static constexpr uint32_t kOut = kHeads * kValueDim;
  WideAttention() {
    builder.add_kv_slot({builder.add_kv_group(), kKvHeads, kKeyDim, kValueDim});
    const auto rows = [this](const char* name, uint32_t width) {
      return builder.add_table_rows(width, normal_values(name, size_t{kIds} * width));
    };
    bp_attr_attention attention{};
    attention.n_heads = kHeads, attention.n_kv_heads = kKvHeads;
    attention.head_dim = kKeyDim, attention.v_head_dim = kValueDim;
    attention.writes_kv = attention.causal = 1;
    attention.scale = 0.2f;
    const uint32_t out = builder.add_value(kOut);
    const std::vector<uint32_t> inputs = {rows("q", kHeads * kKeyDim),
                                          rows("k", kKvHeads * kKeyDim),
                                          rows("v", kKvHeads * kValueDim)};
    builder.add_op(BP_OP_ATTENTION, inputs, {out}, {}, ProgramBuilder::attributes(attention));
    builder.add_selected_output(out);
  }
  ProgramBuilder builder;
};

// Of four tokens of a long sequence, and of one of a shorter one. Their tables name the same few
// blocks again and again, for their last ones.
std::vector<float> rows_of_wide_attention(const bp_host* host, uint32_t n_threads) {
  constexpr uint32_t kLong = 18 * 512, kShort = 3 * 512, kFilled = 5, kTokens = 64;
  WideAttention attention;
  const auto backends = cpu_factories();  // the last but one has the most instructions
  BackendSession session(*backends[backends.size() - 2].factory, host);
  bp_compile_options options = BackendSession::default_options();
  options.n_threads = n_threads;
  options.max_context = kLong + 4;
  options.max_step_tokens = options.max_output_rows = kTokens;
  session.compile(attention.builder.build(), options, kFilled + 3);
  for (uint32_t b = 0; b < kFilled; ++b) {
    std::vector<int32_t> tokens(kTokens);
    for (uint32_t i = 0; i < kTokens; ++i) tokens[i] = static_cast<int32_t>((i * i + b) % 16);
    BatchBuilder batch;
    batch.add_sequence(tokens, 0, {static_cast<int32_t>(b + 1)});
    EXPECT_TRUE(session.run(batch.build()).ok());
  }
  const auto blocks = [](uint32_t n_cached, int32_t last) {
    std::vector<int32_t> all(n_cached / kTokens);
    for (uint32_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(1 + i % kFilled);
    all.push_back(last);
    return all;
  };
  BatchBuilder batch;
  batch.add_sequence({3, 1, 4, 1}, kLong, blocks(kLong, kFilled + 1));
  batch.add_sequence({5}, kShort, blocks(kShort, kFilled + 2));
  batch.add_output(0, {0, 1, 2, 3, 4}, WideAttention::kOut);
  EXPECT_TRUE(session.run(batch.build()).ok());
  return batch.output(0);
}

// Spans of which a head's may be gathered in three rounds, or those of two heads in one.
TEST(AbsentWorkers, TakeRoundsOfSpansInAnyOrder) {
  const std::vector<float> expected = rows_of_wide_attention(nullptr, 1);
  for (const uint32_t n_threads : {2u, 3u}) {
    EXPECT_EQ(rows_of_wide_attention(nullptr, n_threads), expected) << n_threads;
  }
  for (const auto& order : {std::vector<uint32_t>{1, 0}, {0}}) {
    const OneAfterAnother team(2, order);
    EXPECT_EQ(rows_of_wide_attention(team.host(), 2), expected);
  }
}

TEST(AbsentWorkers, TakeSpansOfSequencesInAnyOrder) {
  const OneAfterAnother alone(1, {0});
  const std::vector<float> expected = logits_of_long_sequences(alone.host());
  const std::vector<std::vector<uint32_t>> orders = {{0, 1, 2}, {2, 1, 0}, {1}, {2}};
  for (const auto& order : orders) {
    const OneAfterAnother team(3, order);
    EXPECT_EQ(logits_of_long_sequences(team.host()), expected);
  }
}

TEST(AbsentWorkers, HoldNobodyUpAndChangeNoBit) {
  for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_Q8_0}) {
    const OneAfterAnother alone(1, {0});
    const std::vector<float> expected = logits(alone.host(), dtype);
    const std::vector<std::vector<uint32_t>> orders = {{0, 1, 2}, {2, 1, 0}, {1}};
    for (const auto& order : orders) {
      const OneAfterAnother team(3, order);
      EXPECT_EQ(logits(team.host(), dtype), expected);
    }
  }
}

}  // namespace
}  // namespace bp::test

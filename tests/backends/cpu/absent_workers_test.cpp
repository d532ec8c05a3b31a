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

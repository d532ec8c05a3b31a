// The backend on the emulated device: when work is done, what graphs change (nothing), and what is
// kept where nobody asked for a type.

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/backends/cuda/small_session.hpp"

namespace bp::cuda {
namespace {

using namespace conformance;

std::vector<float> decoded(BackendSession& session, uint32_t n_seqs) {
  BatchBuilder first = prompts(n_seqs), second = decodes(n_seqs);
  EXPECT_TRUE(session.run(first.build()).ok());
  EXPECT_TRUE(session.run(second.build()).ok());
  return second.output(0);
}

TEST(CudaExecutable, SubmitReturnsBeforeTheWorkIsDone) {
  TinyLlama llama;
  BackendSession session(kFactory);
  session.compile(llama.program(), small_options(), kBlocks);
  std::array<BatchBuilder, 3> builders = {decodes(2), decodes(3), decodes(1)};
  const std::vector<float> first = builders[0].output(0), second = builders[1].output(0);
  std::array<uint64_t, 3> tickets{};
  bp_error error{};
  const auto submit = [&](size_t i) {
    const bp_batch batch = builders[i].build();
    return kFactory.submit(session.executable(), &batch, &tickets[i], &error);
  };
  const auto collect = [&](size_t i) {
    return kFactory.collect(session.executable(), tickets[i], &error);
  };
  ASSERT_EQ(submit(0), BP_OK);
  ASSERT_EQ(submit(1), BP_OK);
  EXPECT_EQ(builders[0].output(0), first);
  EXPECT_EQ(submit(2), BP_INVALID_ARGUMENT);
  EXPECT_EQ(collect(1), BP_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "step 2 is collected after step 1, which is in flight");
  ASSERT_EQ(collect(0), BP_OK);
  EXPECT_NE(builders[0].output(0), first);
  EXPECT_EQ(builders[1].output(0), second);
  EXPECT_EQ(collect(0), BP_INVALID_ARGUMENT);
  ASSERT_EQ(submit(2), BP_OK);
  ASSERT_EQ(collect(1), BP_OK);
  EXPECT_NE(builders[1].output(0), second);
  ASSERT_EQ(collect(2), BP_OK);
}

TEST(CudaExecutable, GraphsAndPaddingChangeNoBit) {
  TinyLlama llama;
  Configured plain(llama, "graphs", false), captured(llama, "graphs", true);
  for (const uint32_t n_seqs : {1u, 3u, 5u, 6u}) {
    EXPECT_EQ(decoded(*plain, n_seqs), decoded(*captured, n_seqs)) << n_seqs;
  }
}

TEST(CudaExecutable, WaitingAfterEachOpChangesNoBit) {
  TinyLlama llama;
  Configured plain(llama, "synchronous", false), waiting(llama, "synchronous", true);
  EXPECT_EQ(decoded(*plain, 3), decoded(*waiting, 3));
}

TEST(CudaExecutable, TheCacheKeepsWhatSuitsTheWeights) {
  for (const auto& [weights, kv] : {std::pair{BP_DTYPE_F32, BP_DTYPE_F32},
                                    {BP_DTYPE_F16, BP_DTYPE_F16},
                                    {BP_DTYPE_BF16, BP_DTYPE_BF16},
                                    {BP_DTYPE_Q8_0, BP_DTYPE_F16}}) {
    TinyLlama llama(weights);
    BackendSession session(kFactory);
    session.compile(llama.program(), small_options(), kBlocks);
    EXPECT_EQ(session.memory().k_dtype, kv);
    EXPECT_EQ(session.memory().v_dtype, kv);
  }
}

// By kernels that take many rows and positions at once: rows 0, 1, 2, 4 and 7 of the first sequence
// and the last of the second; the embedding of token 3 is NaN.
std::vector<float> logits_beside_a_nan(uint32_t window, bool is_poisoned) {
  TinyLlama llama(BP_DTYPE_BF16, window);
  auto* table = static_cast<uint16_t*>(const_cast<void*>(llama.builder().weight_part(0).data));
  if (is_poisoned) std::fill_n(table + 3 * TinyLlama::kDim, TinyLlama::kDim, uint16_t{0x7fc0});
  BackendSession session(kFactory);
  session.compile(llama.program(), small_options(), kBlocks);
  BatchBuilder batch;
  batch.add_sequence({1, 9, 3, 2, 7, 8, 5, 6}, 0, {1});
  batch.add_sequence({4, 5, 6, 9, 10, 11, 12, 13, 14, 15}, 0, {2});
  batch.add_output(0, {0, 1, 2, 4, 7, 17}, kVocab);
  EXPECT_TRUE(session.run(batch.build()).ok());
  return batch.output(0);
}

// Of two layers with windows of 3, the last of the first sequence sees 4 tokens back.
TEST(CudaExecutable, ANanStaysInTokensThatSeeIt) {
  for (const uint32_t window : {0u, 3u}) {
    const std::vector<float> clean = logits_beside_a_nan(window, false),
                             poisoned = logits_beside_a_nan(window, true);
    for (uint32_t i = 0; i < 6 * kVocab; ++i) {
      const uint32_t row = i / kVocab;
      const bool sees_it = row == 2 || row == 3 || (row == 4 && window == 0);
      if (sees_it) {
        EXPECT_TRUE(std::isnan(poisoned[i])) << window << " row " << row;
      } else if (i % kVocab != 3) {  // the head is the table
        EXPECT_NEAR(poisoned[i], clean[i], 0.05) << window << " row " << row;
      }
    }
  }
}

TEST(CudaExecutable, MemoryIsToldTruly) {
  TinyLlama llama;
  BackendSession session(kFactory);
  ASSERT_TRUE(session.try_compile(llama.program(), small_options()).ok());
  const bp_memory_info before = session.memory();
  session.allocate(1, kBlocks);
  const bp_memory_info after = session.memory();
  const double taken = static_cast<double>(before.available_bytes - after.available_bytes);
  EXPECT_NEAR(taken, 0.9 * static_cast<double>(kBlocks * before.block_bytes[0]), 2);
  EXPECT_GT(before.weights_bytes, 4u * kVocab * TinyLlama::kDim);
  EXPECT_GT(before.workspace_bytes, 0u);
}

TEST(CudaExecutable, ACacheThatDoesNotFitIsASentence) {
  TinyLlama llama;
  BackendSession session(kFactory);
  ASSERT_TRUE(session.try_compile(llama.program(), small_options()).ok());
  const uint32_t n_blocks = 1u << 30;
  bp_error error{};
  EXPECT_EQ(kFactory.kv_allocate(session.executable(), &n_blocks, 1, &error), BP_OUT_OF_MEMORY);
  EXPECT_NE(std::string(error.message).find("for the KV cache are needed"), std::string::npos);
}

}  // namespace
}  // namespace bp::cuda

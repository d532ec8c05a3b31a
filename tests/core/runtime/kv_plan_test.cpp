// How much of the memory that a backend tells of becomes KV blocks and state entries.

#include <gtest/gtest.h>

#include "backplane/plugin.hpp"
#include "core/runtime/compiled_model.hpp"
#include "core/runtime/kv_promises.hpp"

namespace bp::runtime {
namespace {

constexpr uint64_t kBlockBytes = 1000, kBlocksOfContext = 4;

bp_memory_info memory_of(uint64_t available_bytes, bool is_dedicated) {
  auto memory = make_growable<bp_memory_info>();
  memory.block_size = 16;
  memory.n_groups = 2;
  memory.block_bytes[0] = 600;
  memory.block_bytes[1] = 400;
  memory.available_bytes = available_bytes;
  memory.is_dedicated = is_dedicated ? 1 : 0;
  return memory;
}

struct Asked {
  uint32_t context = 0;
  std::optional<uint64_t> kv_bytes = std::nullopt;
  uint64_t state_bytes = 0;
  uint32_t max_sequences = 64;
};
Result<KvPlan> plan(const bp_memory_info& memory, const Asked& asked = {}) {
  CompileLimits limits;
  limits.context = kBlocksOfContext * 16;
  limits.max_sequences = asked.max_sequences;
  return plan_kv(memory, asked.state_bytes, limits, asked.context, asked.kv_bytes);
}
uint32_t blocks(const bp_memory_info& memory, const Asked& asked = {}) {
  const Result<KvPlan> planned = plan(memory, asked);
  EXPECT_TRUE(planned.ok());
  return planned.ok() ? planned->n_blocks : 0;
}

TEST(KvPlan, DedicatedMemoryIsFilled) {
  EXPECT_EQ(blocks(memory_of(1000 * kBlockBytes, true)), 1000u);
  EXPECT_EQ(blocks(memory_of(10 * kBlockBytes + 999, true)), 10u);
  EXPECT_EQ(blocks(memory_of(1000 * kBlockBytes, true), {.max_sequences = 1}), 1000u);
}

TEST(KvPlan, OfSharedMemorySixteenFullSequencesWithinHalf) {
  EXPECT_EQ(blocks(memory_of(1000 * kBlockBytes, false)), 1 + 16 * kBlocksOfContext);
  EXPECT_EQ(blocks(memory_of(1000 * kBlockBytes, false), {.max_sequences = 2}),
            1 + 2 * kBlocksOfContext);
  EXPECT_EQ(blocks(memory_of(20 * kBlockBytes, false)), 10u);
}

// Caches take their memory from the system as sequences grow.
TEST(KvPlan, ModelsLeaveEachOtherTheMemoryThatTheyShare) {
  KvPromises promises;
  const bp_memory_info memory = memory_of(40 * kBlockBytes, false);
  EXPECT_EQ(blocks(promises.left_of(memory)), 20u);
  const auto first = promises.add(memory, memory, plan(memory)->n_bytes);
  EXPECT_EQ(blocks(promises.left_of(memory)), 10u);
  {
    const auto second = promises.add(memory, memory, 39 * kBlockBytes);
    EXPECT_EQ(promises.left_of(memory).available_bytes, 0u);
  }
  EXPECT_EQ(blocks(promises.left_of(memory)), 10u);
  const bp_memory_info card = memory_of(40 * kBlockBytes, true);
  EXPECT_EQ(promises.add(card, card, 40 * kBlockBytes), nullptr);
  EXPECT_EQ(blocks(promises.left_of(card)), 40u);
}

TEST(KvPlan, WhatACacheHasTakenAtOnceIsNotLeftToItAgain) {
  KvPromises promises;
  const bp_memory_info before = memory_of(40 * kBlockBytes, false);
  const bp_memory_info after = memory_of(22 * kBlockBytes, false);
  const auto all_but_two = promises.add(before, after, 20 * kBlockBytes);
  EXPECT_EQ(promises.left_of(after).available_bytes, 20 * kBlockBytes);
  const auto all = promises.add(before, after, 18 * kBlockBytes);
  EXPECT_EQ(promises.left_of(after).available_bytes, 20 * kBlockBytes);
}

TEST(KvPlan, ASizeInTheConfigurationIsTaken) {
  for (const bool is_dedicated : {false, true}) {
    EXPECT_EQ(blocks(memory_of(1000 * kBlockBytes, is_dedicated), {.kv_bytes = 300 * kBlockBytes}),
              300u);
  }
}

TEST(KvPlan, StatesComeOutOfTheSameMemory) {
  const Result<KvPlan> planned = plan(memory_of(1000 * kBlockBytes, true), {.state_bytes = 5000});
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(planned->n_state_entries, 65u);
  EXPECT_EQ(planned->n_blocks, 1000u - 65 * 5);
}

TEST(KvPlan, ABackendWithoutBlocksGetsWhatSequencesName) {
  bp_memory_info memory = memory_of(1 << 20, true);
  memory.block_bytes[0] = memory.block_bytes[1] = 0;
  EXPECT_EQ(blocks(memory), 1 + 16 * kBlocksOfContext);
}

TEST(KvPlan, TooLittleForTheContextIsASentence) {
  const auto memory = memory_of(4 * kBlockBytes, true);
  EXPECT_EQ(plan(memory)->context, 48u);
  const Result<KvPlan> refused = plan(memory, {.context = 64});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kOutOfMemory);
}

}  // namespace
}  // namespace bp::runtime

#include "backends/cpu/threads/work_shares.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace bp::cpu {
namespace {

using Taken = std::vector<uint32_t>;

uint32_t take_one(WorkShares& shares, uint32_t phase, uint32_t worker) {
  const WorkShares::Run run = shares.take(phase, worker);
  EXPECT_LE(run.size(), 1u);
  return run.size() == 0 ? WorkShares::kNone : run.begin;
}

Taken take_all(WorkShares& shares, uint32_t phase, uint32_t worker) {
  Taken taken;
  Items items(shares, phase, worker);
  for (uint32_t i; (i = items.next()) != WorkShares::kNone;) taken.push_back(i);
  EXPECT_EQ(items.n_taken(), taken.size());
  return taken;
}

TEST(WorkShares, AWorkerTakesItsOwnFromTheFrontAndOthersFromTheBack) {
  WorkShares shares(3);
  shares.open(5, 9, false);
  EXPECT_EQ(take_one(shares, 5, 2), 6u);
  EXPECT_EQ(take_all(shares, 5, 1), (Taken{3, 4, 5, 8, 7, 2, 1, 0}));
}

TEST(WorkShares, AWorkerTakesShorterAndShorterRunsOfItsOwn) {
  WorkShares shares(2);
  shares.open(1, 40, false);
  Taken sizes;
  for (uint32_t begin = 0; begin < 20;) {
    const WorkShares::Run run = shares.take(1, 0);
    EXPECT_EQ(run.begin, begin);
    sizes.push_back(run.size());
    begin = run.end;
  }
  EXPECT_EQ(sizes, (Taken{5, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(WorkShares, WhatAWorkerHasNotTakenOfItsOwnIsThereForOthers) {
  WorkShares shares(2);
  shares.open(1, 40, false);
  EXPECT_EQ(shares.take(1, 0).end, 5u);
  EXPECT_EQ(take_all(shares, 1, 1).size(), 35u);
  EXPECT_EQ(take_one(shares, 1, 0), WorkShares::kNone);
}

TEST(WorkShares, ItemsInOrderAreTakenInOrderByAnyWorker) {
  WorkShares shares(3);
  shares.open(1, 5, true);
  EXPECT_EQ(take_one(shares, 1, 2), 0u);
  EXPECT_EQ(take_one(shares, 1, 0), 1u);
  EXPECT_EQ(take_all(shares, 1, 1), (Taken{2, 3, 4}));
}

TEST(WorkShares, AWorkerThatComesLateFindsNothingOfAPhaseThatIsOver) {
  WorkShares shares(2);
  shares.open(1, 2, false);
  EXPECT_EQ(take_all(shares, 1, 0).size(), 2u);
  EXPECT_TRUE(shares.complete(2));
  shares.open(3, 2, false);
  EXPECT_EQ(take_one(shares, 1, 1), WorkShares::kNone);
  EXPECT_EQ(take_one(shares, 3, 1), 1u);
}

TEST(WorkShares, HoldsTheLargestNumbers) {
  WorkShares shares(2);
  shares.open(WorkShares::kMaxPhase - 1, WorkShares::kMaxItems, false);
  EXPECT_EQ(shares.take(WorkShares::kMaxPhase - 1, 0).begin, 0u);
  EXPECT_EQ(shares.take(WorkShares::kMaxPhase - 1, 1).begin, WorkShares::kMaxItems / 2);
  EXPECT_EQ(take_one(shares, WorkShares::kMaxPhase - 2, 0), WorkShares::kNone);
}

// Phases follow each other with no barrier: whoever completes one opens the next.
TEST(WorkShares, EachItemOfEachPhaseIsTakenOnce) {
  constexpr uint32_t kWorkers = 4, kPhases = 300, kItems = 37;
  WorkShares shares(kWorkers);
  std::vector<std::atomic<int>> counts(kPhases * kItems);
  std::atomic<uint32_t> open{0};
  shares.open(0, kItems, false);
  const auto work = [&](uint32_t worker) {
    for (uint32_t phase; (phase = open.load()) < kPhases;) {
      Items items(shares, phase, worker);
      for (uint32_t i; (i = items.next()) != WorkShares::kNone;) ++counts[phase * kItems + i];
      if (items.n_taken() == 0) std::this_thread::yield();
      if (items.n_taken() == 0 || !shares.complete(items.n_taken())) continue;
      if (phase + 1 < kPhases) shares.open(phase + 1, kItems, phase % 2 == 0);
      open = phase + 1;
    }
  };
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < kWorkers; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
  for (const auto& count : counts) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace bp::cpu

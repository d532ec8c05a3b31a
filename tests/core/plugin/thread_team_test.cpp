// The team runs every worker once, meets at barriers, and serves callers one after another.

#include "core/plugin/thread_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <set>
#include <vector>

#include "core/base/cpu_topology.hpp"

namespace bp::plugin {
namespace {

struct Phases {
  const bp_threads* threads;
  std::vector<int> counts;  // [workers]
  std::atomic<int> errors{0};
  static constexpr int kPhases = 200;

  static void run(void* argument, uint32_t worker, uint32_t n, bp_team* team) {
    auto& self = *static_cast<Phases*>(argument);
    for (int phase = 0; phase < kPhases; ++phase) {
      ++self.counts[worker];
      self.threads->barrier(team);
      for (uint32_t i = 0; i < n; ++i) {
        if (self.counts[i] != phase + 1) ++self.errors;
      }
      self.threads->barrier(team);
    }
  }
};

class ThreadTeamTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ThreadTeamTest, BarriersSeparatePhases) {
  ThreadTeam team(GetParam());
  const bp_threads* threads = team.extension();
  Phases phases{threads, std::vector<int>(GetParam()), {0}};
  for (int round = 0; round < 3; ++round) {
    phases.counts.assign(GetParam(), 0);
    threads->run_team(threads->user, 0, Phases::run, &phases);
    EXPECT_EQ(phases.errors, 0);
    for (const int count : phases.counts) EXPECT_EQ(count, Phases::kPhases);
  }
}

// More workers than cores too: waiting must not need a core.
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamTest, ::testing::Values(1u, 2u, 3u, 8u));

TEST(ThreadTeam, RunsASubsetWhenAsked) {
  ThreadTeam team(4);
  const bp_threads* threads = team.extension();
  std::atomic<uint32_t> seen{0};
  const auto count = [](void* argument, uint32_t worker, uint32_t n, bp_team*) {
    if (worker < n && n == 2) static_cast<std::atomic<uint32_t>*>(argument)->fetch_add(1);
  };
  threads->run_team(threads->user, 2, count, &seen);
  EXPECT_EQ(seen, 2u);
  threads->run_team(
      threads->user, 99,
      [](void* a, uint32_t, uint32_t n, bp_team*) {
        if (n == 4) static_cast<std::atomic<uint32_t>*>(a)->fetch_add(1);
      },
      &seen);
  EXPECT_EQ(seen, 6u);
}

TEST(ThreadTeam, ParallelForVisitsEachItemOnce) {
  ThreadTeam team(3);
  const bp_threads* threads = team.extension();
  std::vector<std::atomic<int>> visits(1000);
  threads->parallel_for(
      threads->user, visits.size(),
      [](void* argument, uint64_t i) {
        ++(*static_cast<std::vector<std::atomic<int>>*>(argument))[i];
      },
      &visits);
  for (const auto& visit : visits) EXPECT_EQ(visit, 1);
}

TEST(ThreadTeam, ServesCallersFromSeveralThreads) {
  ThreadTeam team(2);
  const bp_threads* threads = team.extension();
  std::atomic<uint32_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        threads->run_team(
            threads->user, 0,
            [](void* a, uint32_t, uint32_t, bp_team*) {
              static_cast<std::atomic<uint32_t>*>(a)->fetch_add(1);
            },
            &total);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4u * 100u * 2u);
}

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

base::CpuTopology topology_of(uint32_t n_cpus) {
  base::CpuTopology topology;
  topology.quota = n_cpus;
  for (uint32_t id = 0; id < n_cpus; ++id) topology.cpus.push_back({id, id, 0});
  return topology;
}

constexpr auto kLong = std::chrono::milliseconds(60);
constexpr double kLittleMs = 20;  // a spinning worker would take kLong

TEST(ThreadTeam, LeavesItsCoresBetweenJobs) {
  ThreadTeam team(2, topology_of(2));
  const bp_threads* threads = team.extension();
  threads->run_team(
      threads->user, 0, [](void*, uint32_t, uint32_t, bp_team*) {}, nullptr);
  const double before = cpu_ms();
  std::this_thread::sleep_for(kLong);
  EXPECT_LT(cpu_ms() - before, kLittleMs);
}

TEST(ThreadTeam, SleepsInBarriersWhereItHasMoreWorkersThanProcessors) {
  ThreadTeam team(4, topology_of(1));
  const bp_threads* threads = team.extension();
  const double before = cpu_ms();
  threads->run_team(
      threads->user, 0,
      [](void* argument, uint32_t worker, uint32_t, bp_team* running) {
        if (worker == 0) std::this_thread::sleep_for(kLong);
        static_cast<const bp_threads*>(argument)->barrier(running);
      },
      const_cast<bp_threads*>(threads));
  EXPECT_LT(cpu_ms() - before, kLittleMs);
}

}  // namespace
}  // namespace bp::plugin

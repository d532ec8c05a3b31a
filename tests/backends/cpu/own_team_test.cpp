#include "backends/cpu/threads/own_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "backends/cpu/threads/team.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"

namespace bp::cpu {
namespace {

std::shared_ptr<Team> own_team(uint32_t n_threads) {
  return Team::create(Host(), n_threads);
}

TEST(OwnTeam, RunsEveryWorkerOnce) {
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    const auto team = own_team(n_threads);
    EXPECT_TRUE(team->is_own());
    EXPECT_EQ(team->n_threads(), n_threads);
    for (const uint32_t wanted : {0u, 1u, 2u, 9u}) {
      const uint32_t expected = wanted == 0 ? n_threads : std::min(wanted, n_threads);
      std::vector<std::atomic<int>> calls(expected);
      team->run(wanted, [&](uint32_t worker, uint32_t n, bp_team*) {
        EXPECT_EQ(n, expected);
        ++calls[worker];
      });
      for (const auto& n_calls : calls) EXPECT_EQ(n_calls, 1);
    }
  }
}

TEST(OwnTeam, BarrierSeparatesPhases) {
  constexpr uint32_t n_threads = 3;
  constexpr int n_phases = 500;
  const auto team = own_team(n_threads);
  std::vector<std::atomic<int>> phase(n_threads);
  std::atomic<int> n_wrong{0};
  team->run(0, [&](uint32_t worker, uint32_t, bp_team* running) {
    for (int p = 1; p <= n_phases; ++p) {
      phase[worker] = p;
      team->barrier(running);
      for (const auto& other : phase) n_wrong += other != p ? 1 : 0;
      team->barrier(running);
    }
  });
  EXPECT_EQ(n_wrong, 0);
}

TEST(OwnTeam, ParallelForTakesEachIndexOnce) {
  const auto team = own_team(3);
  for (const uint64_t n : {0u, 1u, 1000u}) {
    std::vector<std::atomic<int>> calls(n);
    team->parallel_for(n, [&](uint64_t i) { ++calls[i]; });
    for (const auto& n_calls : calls) EXPECT_EQ(n_calls, 1);
  }
}

TEST(OwnTeam, WakesSleepingWorkers) {
  const auto team = own_team(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::atomic<int> n_calls{0};
    team->run(0, [&](uint32_t, uint32_t, bp_team*) { ++n_calls; });
    EXPECT_EQ(n_calls, 2);
  }
}

TEST(OwnTeam, ConcurrentCallersTakeTurns) {
  const auto team = own_team(2);
  std::atomic<int> inside{0};
  std::atomic<int> n_overlaps{0};
  const auto caller = [&] {
    for (int i = 0; i < 200; ++i) {
      team->run(1, [&](uint32_t, uint32_t, bp_team*) {
        n_overlaps += ++inside == 1 ? 0 : 1;
        --inside;
      });
    }
  };
  std::thread other(caller);
  caller();
  other.join();
  EXPECT_EQ(n_overlaps, 0);
}

TEST(Team, PrefersTheHosts) {
  struct Offer {
    bp_threads threads;
    int n_runs = 0;
  } offer{};
  offer.threads.struct_size = sizeof(bp_threads);
  offer.threads.n_threads = 7;
  offer.threads.user = &offer;
  offer.threads.run_team = [](void* user, uint32_t, auto f, void* argument) {
    ++static_cast<Offer*>(user)->n_runs;
    f(argument, 0, 1, nullptr);
  };
  offer.threads.barrier = [](bp_team*) {};
  offer.threads.parallel_for = [](void*, uint64_t n, auto f, void* argument) {
    for (uint64_t i = 0; i < n; ++i) f(argument, i);
  };
  bp_host host{};
  host.struct_size = sizeof host;
  host.user = &offer;
  host.get_extension = [](void* user, const char* id) -> const void* {
    return std::string_view(id) == BP_THREADS_ID ? &static_cast<Offer*>(user)->threads : nullptr;
  };
  const auto team = Team::create(Host(&host), 3);
  EXPECT_FALSE(team->is_own());
  EXPECT_EQ(team->n_threads(), 7u);
  team->run(2, [](uint32_t, uint32_t, bp_team*) {});
  EXPECT_EQ(offer.n_runs, 1);
}

TEST(Team, CountsUsableProcessors) {
  EXPECT_GE(usable_processors(), 1u);
  EXPECT_LE(usable_processors(), std::thread::hardware_concurrency());
}

TEST(Team, HeedsTheQuotaOfItsOwnGroup) {
  const conformance::TemporaryFolder root("backplane-root");
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path file = root.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  const auto usable = [&] { return usable_processors(root.path().string()); };
  const uint32_t all = usable();
  write("proc/self/cgroup", "3:cpu,cpuacct:/y\n0::/a/b\n");
  write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(usable(), all);
  write("sys/fs/cgroup/a/cpu.max", "90000 100000\n");
  EXPECT_EQ(usable(), 1u);
  write("sys/fs/cgroup/a/cpu.max", "6400000 100000\n");
  EXPECT_EQ(usable(), std::min(all, 64u));
  write("sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "50000\n");
  write("sys/fs/cgroup/cpu/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable(), 1u);
}

}  // namespace
}  // namespace bp::cpu

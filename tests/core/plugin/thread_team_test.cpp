// The team runs every worker once, meets at barriers, and serves callers one after another.

#include "core/plugin/thread_team.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <fstream>
#include <set>
#include <system_error>
#include <vector>

#include "core/base/cpu_topology.hpp"
#include "sdk/conformance/probe/sanitizer.hpp"

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

TEST(ThreadTeam, StartsAllOfItsThreadsOnceTheSystemGivesThem) {
  if (conformance::kSanitized) GTEST_SKIP() << "a sanitizer takes address space of its own";
  ThreadTeam team(64);
  const bp_threads* threads = team.extension();
  std::atomic<uint32_t> seen{0};
  const auto count = [](void* argument, uint32_t, uint32_t, bp_team*) {
    static_cast<std::atomic<uint32_t>*>(argument)->fetch_add(1);
  };
  uint64_t n_pages = 0;
  std::ifstream("/proc/self/statm") >> n_pages;
  rlimit whole{}, stacks{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &whole), 0);
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &stacks), 0);
  const rlim_t stack = stacks.rlim_cur == RLIM_INFINITY ? rlim_t{2} << 20 : stacks.rlim_cur;
  const rlimit few{n_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + 8 * stack,
                   whole.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  EXPECT_THROW(threads->run_team(threads->user, 0, count, &seen), std::system_error);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &whole), 0);
  EXPECT_EQ(seen, 0u);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
  threads->run_team(threads->user, 0, count, &seen);
  EXPECT_EQ(seen, 64u);
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

// Workers that hand a word round, each adding one when it is its turn.
struct Round {
  const bp_threads* threads;
  uint32_t word = 0;
  static constexpr uint32_t kTurns = 2000;

  static void run(void* argument, uint32_t worker, uint32_t n, bp_team* team) {
    auto& self = *static_cast<Round*>(argument);
    uint32_t now = __atomic_load_n(&self.word, __ATOMIC_ACQUIRE);
    while (now < kTurns) {
      if (now % n == worker) {
        __atomic_store_n(&self.word, ++now, __ATOMIC_RELEASE);
        self.threads->wake(team, &self.word, n);
      } else {
        now = self.threads->wait(team, worker, &self.word, now);
      }
    }
  }
};

TEST_P(ThreadTeamTest, WorkersWaitForAWord) {
  ThreadTeam team(GetParam());
  const bp_threads* threads = team.extension();
  for (int round = 0; round < 3; ++round) {
    Round own{threads};
    threads->run_team(threads->user, 0, Round::run, &own);
    EXPECT_EQ(own.word, Round::kTurns);
  }
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

double own_cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Of a thread; 0 is the caller.
std::set<uint32_t> affinity_of(pid_t thread) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(thread, sizeof cores, &cores);
  std::set<uint32_t> ids;
  for (uint32_t id = 0; id < CPU_SETSIZE; ++id) {
    if (CPU_ISSET(id, &cores)) ids.insert(id);
  }
  return ids;
}

// Threads that want a core for themselves.
class Hogs {
 public:
  Hogs(int n, uint32_t core) {
    for (int i = 0; i < n; ++i) {
      hogs_.emplace_back([this, core] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
        while (!stop_) {
        }
      });
    }
  }
  ~Hogs() {
    stop_ = true;
    for (std::thread& hog : hogs_) hog.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> hogs_;
};

// A worker computes while the other waits for it.
struct AwaitedWork {
  const bp_threads* threads;
  uint32_t computing;  // which worker
  uint32_t done = 0;
  static constexpr double kMs = 40;

  static void run(void* argument, uint32_t worker, uint32_t n, bp_team* team) {
    auto& self = *static_cast<AwaitedWork*>(argument);
    if (worker != self.computing) {
      self.threads->wait(team, worker, &self.done, 0);
      return;
    }
    for (const double until = own_cpu_ms() + kMs; own_cpu_ms() < until;) {
    }
    __atomic_store_n(&self.done, 1, __ATOMIC_RELEASE);
    self.threads->wake(team, &self.done, n);
  }
};

// A worker that does not compute in the middle of its work is one that has lost its core.
TEST(WorkerCores, AreLentToAWorkerThatDoesNotComputeUntilItWaits) {
  if (base::own_topology().n_usable() < 2) GTEST_SKIP() << "needs two processors";
  const std::vector<uint32_t> homes = base::own_topology().placement(2);
  WorkerCores cores(2);
  std::atomic<int> step{0};  // 1: called, 2: at work, 3: lent a core
  const auto go_on = [&](int to) {
    step = to;
    step.notify_all();
  };
  std::set<uint32_t> affinity[2];
  const std::set<uint32_t> all = affinity_of(0);
  std::thread other([&] {
    step.wait(0);
    cores.begin_work(1);
    go_on(2);
    step.wait(2);
    affinity[0] = affinity_of(0);
    cores.begin_wait(1);
    affinity[1] = affinity_of(0);
  });
  cores.meet(0, pthread_self(), homes[0]);
  cores.meet(1, other.native_handle(), homes[1]);
  for (const uint32_t i : {0u, 1u}) cores.enter(i);
  go_on(1);
  step.wait(1);
  cores.look(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(cores.lend(0, WorkerCores::Loan::kUntilLeave));
  EXPECT_FALSE(cores.lend(0, WorkerCores::Loan::kUntilLeave)) << "it has one";
  go_on(3);
  other.join();
  EXPECT_EQ(affinity[0].size(), 1u);
  EXPECT_EQ(affinity[1].size(), 1u) << "lent until it leaves";
  cores.leave(0);
  EXPECT_EQ(affinity_of(0), all);
}

// Within a job a worker may be on a lent core; afterwards it goes home, maybe after the caller has
// gone on.
bool comes_home(pid_t thread, const std::set<uint32_t>& home) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    if (affinity_of(thread) == home) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

using Ids = std::array<pid_t, 2>;
Ids ids_of_workers(const bp_threads* threads) {
  Ids ids{};
  threads->run_team(
      threads->user, 0,
      [](void* argument, uint32_t worker, uint32_t, bp_team*) {
        (*static_cast<Ids*>(argument))[worker] = gettid();
      },
      &ids);
  return ids;
}

// A machine that has no others, as cores.
base::CpuTopology two_processors() {
  base::CpuTopology topology;
  topology.quota = 2;
  for (const uint32_t id : base::own_topology().placement(2)) topology.cpus.push_back({id, id, 0});
  return topology;
}

// Another process, which has the other cores, would place its workers where these are.
TEST(ThreadTeam, StaysOnItsCoresWhereItHasThemAll) {
  if (base::own_topology().n_usable() < 2) GTEST_SKIP() << "needs two processors";
  base::CpuTopology topology = two_processors();
  {
    ThreadTeam team(2, topology);
    EXPECT_TRUE(comes_home(ids_of_workers(team.extension())[1], {topology.cpus[1].id}));
  }
  topology.cpus.push_back({1000, 1000, 0});
  ThreadTeam team(2, topology);
  EXPECT_TRUE(comes_home(ids_of_workers(team.extension())[1], affinity_of(0)));
}

TEST(ThreadTeam, KeepsAffinitiesThoughOthersWantItsCores) {
  if (base::own_topology().n_usable() < 2) GTEST_SKIP() << "needs two processors";
  const std::set<uint32_t> all = affinity_of(0);
  const base::CpuTopology topology = two_processors();
  const uint32_t home = topology.cpus[1].id;
  ThreadTeam team(2, topology);
  const bp_threads* threads = team.extension();
  const Ids ids = ids_of_workers(threads);
  for (const uint32_t computing : {1u, 0u}) {
    AwaitedWork work{threads, computing};
    {
      // Each process of a core gets a time slice of the system's in turn, at most some
      // milliseconds.
      const Hogs hogs(4, home);
      threads->run_team(threads->user, 0, AwaitedWork::run, &work);
    }
    EXPECT_EQ(affinity_of(ids[0]), all);
    EXPECT_TRUE(comes_home(ids[1], {home}));
  }
}

}  // namespace
}  // namespace bp::plugin

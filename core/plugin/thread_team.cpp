#include "core/plugin/thread_team.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <ctime>

#include "backplane/no_signals.hpp"
#include "backplane/plugin.hpp"
#include "backplane/wait.hpp"
#include "core/base/cpu_topology.hpp"

// ThreadSanitizer cannot see how threads meet inside oneTBB, which is not compiled for it.
#if defined(__SANITIZE_THREAD__)
#define BP_TEAM_RUNS_LOOPS
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BP_TEAM_RUNS_LOOPS
#endif
#endif
#if !defined(BP_TEAM_RUNS_LOOPS)
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace bp::plugin {

namespace {

// Longer than the gaps between the phases of a step; the team is asleep within 50 us of its end.
constexpr auto kSpinFor = std::chrono::microseconds(30);
// Within a job: a worker still awaited after this is looked at, and after this again lent a core
// where it has none; most items are shorter.
constexpr auto kUntilLook = std::chrono::microseconds(20), kLook = std::chrono::microseconds(30);
// Workers that do compute are waited for awake a little longer, since waking takes as long; then
// asleep, with a look at them now and then.
constexpr auto kAfterLook = std::chrono::microseconds(50), kNap = std::chrono::microseconds(1000);

// Sleeps until woken, where workers have cores at most for kNap, unless `word` differs from `old`;
// what it is then.
uint32_t nap(bp_team& team, const uint32_t& word, uint32_t old) {
  const timespec at_most{0, std::chrono::nanoseconds(kNap).count()};
  team.n_asleep.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, old, team.may_spin ? &at_most : nullptr, nullptr,
          0);
  team.n_asleep.fetch_sub(1, std::memory_order_relaxed);
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

void wake(bp_team& team, const uint32_t& word, uint32_t n) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the word's change before the look
  if (team.n_asleep.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, std::min<uint32_t>(n, INT_MAX), nullptr, nullptr,
          0);
}

// Waits, as a worker of the job, until `word` differs from `old`, and returns what it is then.
uint32_t wait_in_job(bp_team& team, uint32_t worker, const uint32_t& word, uint32_t old,
                     WorkerCores::Loan loan) {
  uint32_t now = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  if (now != old && !team.cores.is_away(worker)) return now;
  team.cores.begin_wait(worker);
  if (team.may_spin && now == old) now = poll_for_change(word, old, kUntilLook);
  if (team.may_spin && now == old) {
    team.cores.look(worker);
    now = poll_for_change(word, old, kLook);
    if (now == old && !team.cores.lend(worker, loan)) now = poll_for_change(word, old, kAfterLook);
  }
  while (now == old) {
    if (team.may_spin) team.cores.look(worker);
    now = nap(team, word, old);
    if (team.may_spin && now == old) team.cores.lend(worker, loan);
  }
  team.cores.take_back(worker);
  team.cores.begin_work(worker);
  return now;
}

// A team of some of the cores goes where it likes: another process, which has its own part of the
// machine, would place its workers on the same ones.
std::vector<uint32_t> placement_on(const base::CpuTopology& topology, uint32_t n_threads) {
  if (n_threads < topology.n_all_cores()) return {};
  return topology.placement(n_threads);
}

void barrier(bp_team* team) {
  if (team->n == 1) return;
  const uint32_t generation = team->generation.load(std::memory_order_relaxed);
  if (team->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == team->n) {
    team->arrived.store(0, std::memory_order_relaxed);
    team->generation.store(generation + 1, std::memory_order_release);
    notify(team->generation);
    return;
  }
  wait_for_change(team->generation, generation, team->may_spin ? kSpinFor : kSpinFor.zero());
}

}  // namespace

#if !defined(BP_TEAM_RUNS_LOOPS)
// oneTBB's workers for loops: they are asleep during steps, as the team's are during loops.
struct ThreadTeam::Loops {
  explicit Loops(uint32_t n_threads) : arena(static_cast<int>(n_threads)) {}

  void run(ThreadTeam& team, uint64_t n, void (*fn)(void*, uint64_t), void* argument) {
    const std::lock_guard lock(team.one_job_);
    arena.execute([&] { tbb::parallel_for(uint64_t{0}, n, [&](uint64_t i) { fn(argument, i); }); });
  }

  tbb::task_arena arena;
};
#else
struct ParallelFor {
  std::atomic<uint64_t> next{0};
  uint64_t n;
  void (*fn)(void*, uint64_t);
  void* argument;

  static void work(void* self, uint32_t, uint32_t, bp_team*) {
    auto& loop = *static_cast<ParallelFor*>(self);
    for (uint64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.n;) {
      loop.fn(loop.argument, i);
    }
  }
};

struct ThreadTeam::Loops {
  explicit Loops(uint32_t) {}

  void run(ThreadTeam& team, uint64_t n, void (*fn)(void*, uint64_t), void* argument) {
    ParallelFor loop{{0}, n, fn, argument};
    team.run(0, ParallelFor::work, &loop);
  }
};
#endif

ThreadTeam::ThreadTeam(uint32_t n_threads) : ThreadTeam(n_threads, base::own_topology()) {}

ThreadTeam::ThreadTeam(uint32_t n_threads, const base::CpuTopology& topology)
    : n_threads_(std::max(n_threads, 1u)),
      may_spin_(n_threads_ <= topology.n_usable()),
      placement_(placement_on(topology, n_threads_)),
      loops_(std::make_unique<Loops>(n_threads_)),
      extension_(make_growable<bp_threads>()),
      team_(n_threads_) {
  team_.may_spin = may_spin_;
  extension_.n_threads = n_threads_;
  extension_.user = this;
  extension_.run_team = [](void* user, uint32_t n, Job job, void* argument) {
    static_cast<ThreadTeam*>(user)->run(n, job, argument);
  };
  extension_.barrier = barrier;
  extension_.parallel_for = [](void* user, uint64_t n, void (*fn)(void*, uint64_t),
                               void* argument) {
    auto& team = *static_cast<ThreadTeam*>(user);
    team.loops_->run(team, n, fn, argument);
  };
  extension_.wait = [](bp_team* team, uint32_t worker, const uint32_t* word, uint32_t old) {
    return wait_in_job(*team, worker, *word, old, WorkerCores::Loan::kUntilWait);
  };
  extension_.wake = [](bp_team* team, const uint32_t* word, uint32_t n) { wake(*team, *word, n); };
}

ThreadTeam::~ThreadTeam() {
  stop_workers();
}

void ThreadTeam::stop_workers() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  notify(epoch_);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
  stop_.store(false, std::memory_order_relaxed);
}

void ThreadTeam::start_workers() {
  const NoSignals inherited;
  try {
    for (uint32_t i = 1; i < n_threads_; ++i) {
      workers_.emplace_back([this, i, epoch = epoch_.load()] { work(i, epoch); });
      const pthread_t worker = workers_.back().native_handle();
      if (!placement_.empty()) keep_on(worker, placement_[i]);
      if (may_spin_) team_.cores.meet(i, worker, home_of(i));
    }
  } catch (...) {
    stop_workers();
    throw;
  }
}

void ThreadTeam::run(uint32_t n, Job job, void* argument) {
  const std::lock_guard lock(one_job_);
  run_alone(n, job, argument);
}

bool ThreadTeam::try_run(uint32_t n, Job job, void* argument) {
  const std::unique_lock lock(one_job_, std::try_to_lock);
  if (lock) run_alone(n, job, argument);
  return lock.owns_lock();
}

void ThreadTeam::run_alone(uint32_t n, Job job, void* argument) {
  if (workers_.empty() && n_threads_ > 1) start_workers();
  team_.n = n == 0 ? n_threads_ : std::min(n, n_threads_);
  if (team_.n == 1) return job(argument, 0, team_.n, &team_);
  job_ = job;
  argument_ = argument;
  running_.store(n_threads_ - 1, std::memory_order_relaxed);
  if (may_spin_) team_.cores.meet(0, pthread_self(), home_of(0));
  for (uint32_t i = 0; i < n_threads_; ++i) team_.cores.enter(i);
  epoch_.fetch_add(1, std::memory_order_release);
  notify(epoch_);
  team_.cores.begin_work(0);
  job(argument, 0, team_.n, &team_);
  for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;) {
    wait_in_job(team_, 0, bare(running_), left, WorkerCores::Loan::kUntilLeave);
  }
  team_.cores.leave(0);
}

void ThreadTeam::work(uint32_t worker, uint32_t epoch) {
  while (true) {
    epoch = wait_for_change(epoch_, epoch, may_spin_ ? kSpinFor : kSpinFor.zero());
    if (stop_.load(std::memory_order_relaxed)) return;
    team_.cores.begin_work(worker);
    if (worker < team_.n) job_(argument_, worker, team_.n, &team_);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake(team_, bare(running_), 1);
    team_.cores.leave(worker);
  }
}

}  // namespace bp::plugin

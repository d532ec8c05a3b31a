#include "core/plugin/thread_team.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>

#include "backplane/plugin.hpp"
#include "core/base/cpu_count.hpp"

namespace bp::plugin {

namespace {

// About 30 us of polling where every worker has a core of its own: longer than the gaps between the
// phases of a step, and the team is asleep well within 50 us of its end.
constexpr uint32_t kSpins = 1000;
constexpr uint32_t kYields = 20;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `word` differs from `old`: spins, yields, then sleeps in the kernel.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, uint32_t n_spins) {
  for (uint32_t i = 0; i < n_spins; ++i) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    pause();
  }
  for (uint32_t i = 0; i < kYields; ++i) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    sched_yield();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}

void barrier(bp_team* team) {
  if (team->n == 1) return;
  const uint32_t generation = team->generation.load(std::memory_order_relaxed);
  if (team->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == team->n) {
    team->arrived.store(0, std::memory_order_relaxed);
    team->generation.store(generation + 1, std::memory_order_release);
    team->generation.notify_all();
    return;
  }
  wait_for_change(team->generation, generation, team->n_spins);
}

// Worker i keeps the i-th CPU of the process, where there is one for each.
void pin_to_cpu(std::thread& thread, uint32_t worker, uint32_t n_threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (static_cast<uint32_t>(CPU_COUNT(&allowed)) < n_threads) return;
  uint32_t seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != worker) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
    return;
  }
}

struct ParallelFor {
  std::atomic<uint64_t> next{0};
  uint64_t n;
  void (*fn)(void*, uint64_t);
  void* argument;
};

void take_items(void* argument, uint32_t, uint32_t, bp_team*) {
  auto& loop = *static_cast<ParallelFor*>(argument);
  for (uint64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.n;) {
    loop.fn(loop.argument, i);
  }
}

}  // namespace

ThreadTeam::ThreadTeam(uint32_t n_threads)
    : n_threads_(std::max(n_threads, 1u)),
      n_spins_(n_threads_ <= base::available_cpus() ? kSpins : 0),
      extension_(make_growable<bp_threads>()) {
  team_.n_spins = n_spins_;
  extension_.n_threads = n_threads_;
  extension_.user = this;
  extension_.run_team = [](void* user, uint32_t n, Job job, void* argument) {
    static_cast<ThreadTeam*>(user)->run(n, job, argument);
  };
  extension_.barrier = barrier;
  extension_.parallel_for = [](void* user, uint64_t n, void (*fn)(void*, uint64_t),
                               void* argument) {
    ParallelFor loop{{0}, n, fn, argument};
    static_cast<ThreadTeam*>(user)->run(0, take_items, &loop);
  };
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::start_workers() {
  sigset_t all, before;
  sigfillset(&all);
  // Faults of the thread itself: blocked, they would end the process without a word.
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // workers inherit it: signals go elsewhere
  for (uint32_t i = 1; i < n_threads_; ++i) {
    workers_.emplace_back([this, i] { work(i); });
    pin_to_cpu(workers_.back(), i, n_threads_);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ThreadTeam::run(uint32_t n, Job job, void* argument) {
  const std::lock_guard lock(one_job_);
  if (workers_.empty() && n_threads_ > 1) start_workers();
  team_.n = n == 0 ? n_threads_ : std::min(n, n_threads_);
  if (team_.n > 1) {
    job_ = job;
    argument_ = argument;
    running_.store(n_threads_ - 1, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  job(argument, 0, team_.n, &team_);
  if (team_.n == 1) return;
  for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;) {
    wait_for_change(running_, left, n_spins_);
  }
}

void ThreadTeam::work(uint32_t worker) {
  uint32_t epoch = 0;
  while (true) {
    epoch = wait_for_change(epoch_, epoch, n_spins_);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (worker < team_.n) job_(argument_, worker, team_.n, &team_);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace bp::plugin

#include "backends/cpu/threads/own_team.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

namespace bp::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Spinning is for waits of a barrier's length; a worker without a job is off its core within 50 us.
constexpr int kSpins = 2000;
constexpr auto kYieldFor = std::chrono::microseconds(40);
constexpr auto kNap = std::chrono::microseconds(50);
constexpr auto kYieldInBarrier = std::chrono::milliseconds(2);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins, then yields for `yield_for`; false when `done` is still false after that.
template <class Done>
bool wait_awake(Clock::duration yield_for, Done&& done) {
  for (int i = 0; i < kSpins; ++i) {
    if (done()) return true;
    pause();
  }
  const auto until = Clock::now() + yield_for;
  do {
    if (done()) return true;
    std::this_thread::yield();
  } while (Clock::now() < until);
  return done();
}

template <class Done>
void wait_until(Done&& done) {
  while (!wait_awake(kYieldInBarrier, done)) std::this_thread::sleep_for(kNap);
}

// Signals are the host's: its threads inherit its mask, ours block everything but their own faults.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

struct Loop {
  std::atomic<uint64_t> next{0};
  uint64_t n;
  void (*f)(void* argument, uint64_t i);
  void* argument;
};

OwnTeam* team_of(void* user) {
  return static_cast<OwnTeam*>(user);
}

}  // namespace

OwnTeam::OwnTeam(uint32_t n_threads) : size_(std::max(1u, n_threads)) {
  const SignalsBlocked blocked;
  try {
    for (uint32_t i = 1; i < size_; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (...) {
    stop();
    throw;
  }
}

OwnTeam::~OwnTeam() {
  stop();
}

void OwnTeam::stop() {
  {
    const std::lock_guard lock(sleep_mutex_);
    stopping_ = true;
    epoch_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bp_threads OwnTeam::threads() {
  bp_threads table{};
  table.struct_size = sizeof table;
  table.n_threads = size_;
  table.user = this;
  table.run_team = [](void* user, uint32_t n, Function f, void* argument) {
    team_of(user)->run(n, f, argument);
  };
  table.barrier = [](bp_team* team) { team_of(team)->barrier(); };
  table.parallel_for = [](void* user, uint64_t n, void (*f)(void*, uint64_t), void* argument) {
    Loop loop{{}, n, f, argument};
    team_of(user)->run(
        0,
        [](void* l, uint32_t, uint32_t, bp_team*) {
          auto& own = *static_cast<Loop*>(l);
          for (uint64_t i; (i = own.next.fetch_add(1)) < own.n;) own.f(own.argument, i);
        },
        &loop);
  };
  return table;
}

void OwnTeam::run(uint32_t n, Function f, void* argument) {
  const std::lock_guard one_run(running_);
  const uint32_t n_workers = n == 0 ? size_ : std::min(n, size_);
  if (n_workers > 1) {
    {
      const std::lock_guard lock(sleep_mutex_);
      function_ = f;
      argument_ = argument;
      n_workers_ = n_workers;
      n_running_.store(size_ - 1, std::memory_order_relaxed);
      epoch_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
  } else {
    n_workers_ = 1;
  }
  f(argument, 0, n_workers, reinterpret_cast<bp_team*>(this));
  if (n_workers > 1) {
    wait_until([this] { return n_running_.load(std::memory_order_acquire) == 0; });
  }
}

void OwnTeam::barrier() {
  if (n_workers_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_workers_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  wait_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

void OwnTeam::wait_for_job(uint64_t seen) {
  const auto has_job = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
  if (wait_awake(kYieldFor, has_job)) return;
  std::unique_lock lock(sleep_mutex_);
  wake_.wait(lock, has_job);
}

void OwnTeam::work(uint32_t worker) {
  for (uint64_t seen = 0;;) {
    wait_for_job(seen);
    ++seen;
    if (stopping_) return;
    if (worker < n_workers_) {
      function_(argument_, worker, n_workers_, reinterpret_cast<bp_team*>(this));
    }
    n_running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace bp::cpu

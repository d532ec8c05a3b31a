#include "backends/cpu/threads/own_team.hpp"

#include <algorithm>

#include "backends/cpu/threads/team.hpp"
#include "backplane/no_signals.hpp"
#include "backplane/wait.hpp"

namespace bp::cpu {

namespace {

// Between steps, when the core is wanted for other things.
constexpr std::chrono::microseconds kSpinForWork{30};

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

OwnTeam::OwnTeam(uint32_t n_threads)
    : size_(std::max(1u, n_threads)), has_core_each_(size_ <= usable_processors()) {
  const NoSignals inherited;
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
  stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  notify(epoch_);
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
  n_workers_ = n == 0 ? size_ : std::min(n, size_);
  const bool shared = n_workers_ > 1;
  if (shared) {
    function_ = f;
    argument_ = argument;
    n_running_.store(size_ - 1, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    notify(epoch_);
  }
  f(argument, 0, n_workers_, reinterpret_cast<bp_team*>(this));
  if (!shared) return;
  uint32_t left = n_running_.load(std::memory_order_acquire);
  while (left != 0) left = wait(n_running_, left, kSpinInStep);
}

uint32_t OwnTeam::wait(const std::atomic<uint32_t>& word, uint32_t old,
                       std::chrono::microseconds spin_for) const {
  return wait_for_change(word, old, has_core_each_ ? spin_for : spin_for.zero());
}

void OwnTeam::barrier() {
  if (n_workers_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_workers_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    notify(phase_);
    return;
  }
  wait(phase_, phase, kSpinInStep);
}

void OwnTeam::work(uint32_t worker) {
  uint32_t epoch = 0;
  while (true) {
    epoch = wait(epoch_, epoch, kSpinForWork);
    if (stopping_) return;
    if (worker < n_workers_) {
      function_(argument_, worker, n_workers_, reinterpret_cast<bp_team*>(this));
    }
    if (n_running_.fetch_sub(1, std::memory_order_acq_rel) == 1) notify(n_running_, 1);
  }
}

}  // namespace bp::cpu

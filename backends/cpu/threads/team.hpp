#pragma once
// The team of workers that steps and preparation run on: the host's, or one of our own.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "backplane/ext/threads.h"
#include "backplane/plugin.hpp"

namespace bp::cpu {

// How long workers wait awake within a step: longer than most items take; waking a sleeping core
// costs as much.
inline constexpr std::chrono::microseconds kSpinInStep{100};

class OwnTeam;

class Team {
 public:
  // n_threads is the size of an own team; 0: what affinity and cgroup allow.
  static std::shared_ptr<Team> create(const Host& host, uint32_t n_threads);
  Team(const bp_threads& threads, std::unique_ptr<OwnTeam> own);
  ~Team();

  [[nodiscard]] uint32_t n_threads() const { return threads_.n_threads; }
  // Whether each worker may have a core to itself, so that waiting awake takes none from another.
  [[nodiscard]] bool has_core_each() const { return threads_.n_threads <= n_cores_; }
  [[nodiscard]] bool is_own() const { return own_ != nullptr; }

  // f(worker, n, team) on n workers; see bp_threads.
  template <class F>
  void run(uint32_t n, F&& f) const {
    threads_.run_team(
        threads_.user, n,
        [](void* argument, uint32_t worker, uint32_t n_workers, bp_team* team) {
          (*static_cast<F*>(argument))(worker, n_workers, team);
        },
        &f);
  }
  void barrier(bp_team* team) const { threads_.barrier(team); }

  // As worker `worker` inside f, until `word` differs from `old`; what it is then.
  uint32_t wait(bp_team* team, uint32_t worker, const std::atomic<uint32_t>& word,
                uint32_t old) const;
  // Inside f, where `word` has changed: as many of those that wait for it as may run at once.
  void wake(bp_team* team, std::atomic<uint32_t>& word) const;
  void wake_all(bp_team* team, std::atomic<uint32_t>& word) const;

  // f(i) for i in [0, n).
  template <class F>
  void parallel_for(uint64_t n, F&& f) const {
    threads_.parallel_for(
        threads_.user, n, [](void* argument, uint64_t i) { (*static_cast<F*>(argument))(i); }, &f);
  }

 private:
  void wake(bp_team* team, std::atomic<uint32_t>& word, uint32_t n) const;

  bp_threads threads_;
  uint32_t n_cores_;  // that this process may use
  std::unique_ptr<OwnTeam> own_;
};

// Processors that affinity and cgroup quota leave to this process; at least 1. root: in place of /.
[[nodiscard]] uint32_t usable_processors(const std::string& root = "");

}  // namespace bp::cpu

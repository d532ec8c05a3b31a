#pragma once
// A host with a team of workers (bp.threads/1) that arrive late, each time at other places, so that
// what workers do in the wrong order comes to light.

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "backplane/ext/threads.h"
#include "backplane/host.h"

namespace bp::conformance {

class PerturbedTeam {
 public:
  // seed 0: no delays.
  PerturbedTeam(uint32_t n_threads, uint64_t seed);
  PerturbedTeam(const PerturbedTeam&) = delete;
  PerturbedTeam& operator=(const PerturbedTeam&) = delete;

  [[nodiscard]] const bp_host& host() const { return host_; }
  // How often work was given to more than one worker.
  [[nodiscard]] uint64_t n_shared_runs() const { return n_shared_runs_; }

 private:
  class Run;

  void run(uint32_t n, void (*fn)(void*, uint32_t, uint32_t, bp_team*), void* argument);
  [[nodiscard]] uint64_t next_seed();

  bp_host host_;
  bp_threads threads_;
  std::mutex running_;  // one run at a time
  uint64_t seed_, n_shared_runs_ = 0;
};

}  // namespace bp::conformance

#pragma once
// The host's "bp.threads/1": one team of workers for all models of the process.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backplane/ext/threads.h"
#include "core/plugin/worker_cores.hpp"

struct bp_team {
  explicit bp_team(uint32_t n_threads) : cores(n_threads) {}

  std::atomic<uint32_t> arrived{0};
  std::atomic<uint32_t> generation{0};
  uint32_t n = 1;  // workers of the running job
  bool may_spin = false;
  bp::plugin::WorkerCores cores;
  std::atomic<uint32_t> n_asleep{0};  // waiting for a word of the job
};

namespace bp::base {
struct CpuTopology;
}

namespace bp::plugin {

class ThreadTeam {
 public:
  // n_threads workers, the caller of run_team being one of them; at least 1.
  explicit ThreadTeam(uint32_t n_threads);
  ThreadTeam(uint32_t n_threads, const base::CpuTopology& topology);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  using Job = void (*)(void* argument, uint32_t worker, uint32_t n, bp_team* team);

  // Valid as long as the team.
  [[nodiscard]] const bp_threads* extension() const { return &extension_; }
  [[nodiscard]] uint32_t n_threads() const { return n_threads_; }

  // As run_team of the extension, unless a job runs: false at once then, and nothing is done.
  bool try_run(uint32_t n, Job job, void* argument);

 private:
  struct Loops;

  void run(uint32_t n, Job job, void* argument);
  void run_alone(uint32_t n, Job job, void* argument);  // one_job_ is held
  void work(uint32_t worker, uint32_t epoch);           // from the job after that one on
  void start_workers();                                 // all of them, or none where it throws
  void stop_workers();
  [[nodiscard]] uint32_t home_of(uint32_t worker) const {
    return placement_.empty() ? WorkerCores::kAnywhere : placement_[worker];
  }

  const uint32_t n_threads_;
  const bool may_spin_;                    // each worker may have a processor to itself
  const std::vector<uint32_t> placement_;  // worker i keeps it; empty: they go where they like
  const std::unique_ptr<Loops> loops_;
  bp_threads extension_;
  std::mutex one_job_;                // held by the caller of run_team
  std::vector<std::thread> workers_;  // started by the first job
  bp_team team_;
  Job job_ = nullptr;
  void* argument_ = nullptr;
  std::atomic<uint32_t> epoch_{0};    // counts jobs; workers wait for it to change
  std::atomic<uint32_t> running_{0};  // workers that have not finished the job
  std::atomic<bool> stop_{false};
};

}  // namespace bp::plugin

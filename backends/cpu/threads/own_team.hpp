#pragma once
// A team of workers for hosts that offer none: "bp.threads/1" over threads of our own.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "backplane/ext/threads.h"

namespace bp::cpu {

class OwnTeam {
 public:
  // The caller of run is worker 0, so n_threads - 1 threads are started.
  explicit OwnTeam(uint32_t n_threads);
  ~OwnTeam();
  OwnTeam(const OwnTeam&) = delete;
  OwnTeam& operator=(const OwnTeam&) = delete;

  // Valid as long as the team.
  [[nodiscard]] bp_threads threads();

 private:
  using Function = void (*)(void* argument, uint32_t worker, uint32_t n, bp_team* team);

  void run(uint32_t n, Function f, void* argument);
  void barrier();
  void stop();  // wakes and joins the workers
  void work(uint32_t worker);
  uint32_t wait(const std::atomic<uint32_t>& word, uint32_t old,
                std::chrono::microseconds spin_for) const;

  const uint32_t size_;
  const bool has_core_each_;
  std::mutex running_;  // one run at a time

  // The job, published by the release of epoch_.
  Function function_ = nullptr;
  void* argument_ = nullptr;
  uint32_t n_workers_ = 0;
  bool stopping_ = false;
  std::atomic<uint32_t> epoch_{0};  // counts jobs
  std::atomic<uint32_t> n_running_{0};

  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};

  std::vector<std::thread> workers_;
};

}  // namespace bp::cpu

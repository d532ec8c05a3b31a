#pragma once
// A compiled model behind a plugin's table, and steps of it that are timed.

#include <chrono>
#include <optional>
#include <vector>

#include "bench/cuda/arguments.hpp"
#include "bench/cuda/device_times.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/kv_transfer_client.hpp"

namespace bp::bench {

class StepBench {
 public:
  // Both outlive this. Throws Failure.
  StepBench(const Arguments& arguments, conformance::Subject& subject);

  // Prints what a step of the task takes.
  void run(const Task& task);

 private:
  using Clock = std::chrono::steady_clock;
  using Blocks = std::vector<int32_t>;
  struct Times {
    std::vector<double> wall_us;  // of each step, ascending
    double device_us = 0;         // median; 0: not known
    [[nodiscard]] double median_us() const { return wall_us[wall_us.size() / 2]; }
  };

  [[nodiscard]] bp_compile_options compile_options() const;
  [[nodiscard]] uint32_t n_blocks_needed() const;
  [[nodiscard]] static uint32_t context_of(const Task& task);
  void fill(const Task& task);
  void compute_context(uint32_t n_tokens);
  void copy_context(const Task& task);
  void must_run(const bp_batch& batch);

  void run_step(const Task& task);
  void run_transfer(const Task& task);
  [[nodiscard]] Times time_alone(const Task& task);
  [[nodiscard]] Times time_ahead(const Task& task);
  void print_idle(const Times& alone, const std::optional<Times>& ahead) const;

  [[nodiscard]] Blocks blocks_of(uint32_t sequence, uint32_t n_tokens) const;
  [[nodiscard]] std::vector<int32_t> tokens_of(uint32_t sequence, uint32_t n) const;
  [[nodiscard]] conformance::BatchBuilder batch_of(const Task& task, bool by_rows = false);
  [[nodiscard]] std::vector<bp_row_request> requests_of(size_t n_rows);
  [[nodiscard]] uint64_t submit(const bp_batch& batch);
  void collect(uint64_t ticket);

  const Arguments& arguments_;
  DeviceTimes device_times_;
  conformance::ProgramBuilder builder_;
  bp_backend_factory factory_;
  conformance::BackendSession session_;
  std::optional<conformance::KvTransferClient> transfers_;
  uint32_t block_size_ = 0;
  uint32_t blocks_per_sequence_ = 0;  // of the task
  std::vector<bp_candidate> candidates_;
};

}  // namespace bp::bench

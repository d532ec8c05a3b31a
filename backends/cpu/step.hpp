#pragma once
// One batch while it is executed.

#include <span>
#include <vector>

#include "backends/cpu/executable.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

class Step {
 public:
  // The batch has passed validation.
  Step(CpuExecutable& executable, const bp_batch& batch);

  // Fills outputs and seq_status.
  void run();

 private:
  void fail_bad_tokens();
  void run_stages(uint32_t worker, uint32_t n, bp_team* team);
  void poll_stop(uint32_t before_stage);
  void place_outputs();
  [[nodiscard]] bool can_write_direct(const PlanOutput& output, const bp_output& wanted) const;
  void copy_outputs() const;
  [[nodiscard]] bool any_running(uint32_t stage) const;

  // Which sequences a stage runs. Worker 0 writes those of the next stage while the others still
  // read those of the running one.
  [[nodiscard]] std::vector<uint8_t>& running(uint32_t stage) { return running_[stage % 2]; }

  CpuExecutable& executable_;
  const bp_batch& batch_;
  std::vector<uint32_t> sequence_of_;
  std::vector<std::span<const uint32_t>> output_rows_;  // of each program output
  std::vector<bp_output> wanted_;
  std::vector<RowsView> values_;
  std::vector<bool> is_direct_;  // of each wanted output
  std::vector<uint8_t> running_[2];
  uint32_t first_output_stage_;  // sequences stopped later are complete
};

}  // namespace bp::cpu

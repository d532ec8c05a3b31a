#pragma once
// One batch while it is executed.

#include <atomic>
#include <span>
#include <vector>

#include "backends/cpu/executable.hpp"
#include "backends/cpu/rows/row_peaks.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

class Step {
 public:
  // The batch has passed validation.
  Step(CpuExecutable& executable, const bp_batch& batch);

  // Fills outputs and seq_status.
  void run();

 private:
  static constexpr uint32_t kEnd = WorkShares::kMaxPhase;
  static constexpr uint32_t kRound = kEnd + 1;  // in the word of a phase, so that none recurs soon

  void fail_bad_tokens();
  // Until the last phase is complete.
  void work(uint32_t worker, bp_team* team);
  // Opens the first phase with items from `phase` on, and returns it; kEnd after the last. Nothing
  // else runs.
  uint32_t open_from(uint32_t phase);
  // What comes after a phase that is complete.
  uint32_t open_after(uint32_t phase);
  void poll_stop(uint32_t before_stage);
  void place_outputs();
  [[nodiscard]] bool can_write_direct(const PlanOutput& output, const bp_output& wanted) const;
  void copy_outputs() const;
  void tell_greatest() const;
  [[nodiscard]] bool any_running() const;

  CpuExecutable& executable_;
  const bp_batch& batch_;
  std::vector<uint32_t> sequence_of_;
  std::vector<std::span<const uint32_t>> output_rows_;  // of each program output
  std::vector<bp_output> wanted_;
  std::vector<RowsView> values_;
  std::vector<bool> is_direct_;   // of each wanted output
  std::vector<RowPeaks> peaks_;   // of each wanted output
  std::vector<uint8_t> running_;  // [n_seqs] 0: the stages skip it
  uint32_t first_output_stage_;   // sequences stopped later are complete
  StepContext context_;
  bool repeats_ = false;  // the open phase
  // The open one: stage * Stage::kPhases + phase of the stage, and its round.
  std::atomic<uint32_t> phase_{kEnd};
};

}  // namespace bp::cpu

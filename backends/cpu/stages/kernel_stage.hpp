#pragma once
// A stage whose rows another plugin's kernel computes.

#include "backends/cpu/stages/stage.hpp"
#include "backplane/overrides.hpp"

namespace bp::cpu {

class KernelStage : public Stage {
 public:
  // in and out: different buffers.
  KernelStage(BoundKernelPtr kernel, RowCount count, uint32_t in, uint32_t out);
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;

 private:
  void run_part(const StepContext& step, uint32_t part, uint8_t* scratch) const;

  BoundKernelPtr kernel_;
  RowCount count_;
};

}  // namespace bp::cpu

#pragma once
// A causal convolution along each sequence, columns apart.

#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

struct ShortConvSpec {
  uint32_t state_slot = 0;
  uint32_t kernel = 0;
  uint32_t activation = 0;  // BP_ACT_*
  uint32_t width = 0;
  const float* weights = nullptr;  // [kernel, width]
  const float* bias = nullptr;     // [width] or null
  uint32_t in = 0, out = 0;        // buffers
};

// An item is some columns of a sequence: its tokens, then what the state keeps of them.
class ShortConvStage : public Stage {
 public:
  explicit ShortConvStage(const ShortConvSpec& spec) : spec_(spec) {
    reads = {spec.in};
    writes = {spec.out};
  }
  // Items that the columns of a sequence are cut into.
  [[nodiscard]] static uint32_t n_parts(uint32_t width);
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits&) const override {
    return spec_.kernel * sizeof(const float*);
  }

 private:
  [[nodiscard]] size_t state_stride() const { return (size_t{spec_.width} + 15) / 16 * 16; }
  void run_columns(const StepContext& step, uint32_t sequence, Range columns,
                   const float** rows) const;

  ShortConvSpec spec_;
};

}  // namespace bp::cpu

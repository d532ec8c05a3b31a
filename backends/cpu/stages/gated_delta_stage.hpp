#pragma once
// The gated delta rule. The recurrence of a value column needs no other column, so that an item,
// some columns of a head of a sequence, goes through all its tokens with its state in the first
// cache; and a token's result does not depend on how tokens are divided into steps.

#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

struct GatedDeltaSpec {
  uint32_t state_slot = 0;
  uint32_t n_heads = 0, n_key_heads = 0, key_dim = 0, value_dim = 0;
  float scale = 1, eps = 0;
  const float* decay = nullptr;    // [n_heads]
  const float* dt_bias = nullptr;  // [n_heads] or null
  uint32_t qkv = 0, a = 0, b = 0;  // buffers
  uint32_t out = 0;
};

class GatedDeltaStage : public Stage {
 public:
  explicit GatedDeltaStage(const GatedDeltaSpec& spec) : spec_(spec) {
    reads = {spec.qkv, spec.a, spec.b};
    writes = {spec.out};
  }
  // Items that the columns of a head of a sequence are cut into.
  [[nodiscard]] static uint32_t n_parts(uint32_t value_dim);
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits&) const override {
    return 2 * key_stride() * sizeof(float);
  }

 private:
  [[nodiscard]] size_t key_stride() const { return (size_t{spec_.key_dim} + 15) / 16 * 16; }
  void run_columns(const StepContext& step, uint32_t sequence, uint32_t head, Range columns,
                   float* scratch) const;
  // The state of the columns as it goes on in state_out.
  [[nodiscard]] float* continued(const StepContext& step, uint32_t sequence, uint32_t head,
                                 Range columns) const;
  // q and k go to scratch.
  [[nodiscard]] DeltaToken token(const StepContext& step, uint32_t row, uint32_t head,
                                 float* scratch) const;

  GatedDeltaSpec spec_;
};

}  // namespace bp::cpu

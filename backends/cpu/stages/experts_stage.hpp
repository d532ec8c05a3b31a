#pragma once
// A mixture of experts: rows choose experts, are gathered by expert, go through the gated MLPs of
// those in use, and come together again. A row's sum takes its experts in ascending order, so that
// it does not depend on the rows beside it.

#include <optional>

#include "backends/cpu/rows/row_source.hpp"
#include "backends/cpu/stages/experts_memory.hpp"
#include "backends/cpu/stages/group_matmul_stage.hpp"
#include "backplane/ops.h"

namespace bp::cpu {

struct ExpertsSpec {
  RowSource input;
  uint32_t logits = 0;  // buffer [n_experts]
  bp_attr_route routing{};
  const float* selection_bias = nullptr;  // [n_experts] or null
  Matrices gate, up, down;                // of each expert
  const float* gate_bias = nullptr;       // [n_experts, n_ff] or null
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;  // [n_experts, n_out] or null
  uint32_t activation = 0;
  float limit = 0, alpha = 1;  // as in bp_attr_moe
  uint32_t n_ff = 0, n_out = 0;
  std::optional<uint32_t> residual;  // buffer, added to the sum
  uint32_t out = 0;                  // buffer
};

class ExpertsStage : public Stage {
 public:
  explicit ExpertsStage(ExpertsSpec spec);
  // Phase 0 routes and quantises rows, 1 multiplies with gate and up, 2 quantises what they give,
  // 3 multiplies with down and sums. Where rows are few, 0 and 2 are done in begin.
  void begin(const StepContext& step, uint32_t phase) const override;
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const override;

 private:
  enum Phase : uint32_t { kRoute, kGateUp, kPrepareHidden, kDown };
  struct Scratch;  // of a worker
  struct Cut;      // of strips into pieces

  [[nodiscard]] ExpertsShape shape(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] ExpertsMemory memory(const StepContext& step) const;
  [[nodiscard]] Scratch scratch(const Kernels& kernels, uint8_t* memory) const;
  [[nodiscard]] uint32_t n_experts() const { return static_cast<uint32_t>(spec_.gate.size()); }
  [[nodiscard]] uint32_t n_rows(const StepContext& step) const {
    return spec_.input.count.of(step);
  }
  [[nodiscard]] bool has_few_rows(const StepContext& step) const;
  [[nodiscard]] Cut cut(const StepContext& step, uint32_t phase) const;

  void route(const StepContext& step, const ExpertsMemory& all, uint32_t row) const;
  void sort(const StepContext& step, ExpertsMemory& all) const;
  void ask_for_experts(const ExpertsMemory& all) const;
  [[nodiscard]] Activations gather(const StepContext& step, const ExpertsMemory& all,
                                   const RowChunk& chunk, uint8_t* memory) const;
  void run_gate_up(const StepContext& step, const Scratch& own, Items& items, uint32_t item) const;
  void finish_hidden(const StepContext& step, uint32_t expert, uint32_t column, uint32_t n,
                     float* gate, float* up, float* hidden) const;
  [[nodiscard]] Activations hidden_of(const StepContext& step, const ExpertsMemory& all,
                                      uint32_t expert) const;
  void prepare_hidden(const StepContext& step, const ExpertsMemory& all,
                      const RowChunk& chunk) const;
  void run_down(const StepContext& step, const Scratch& own, Range strips) const;
  void add_products(const StepContext& step, const ExpertsMemory& all, const RowChunk& chunk,
                    uint32_t column, uint32_t n, float* products) const;

  ExpertsSpec spec_;
  ActivationLayout row_layout_, hidden_layout_;
  ChunkSize chunk_;
};

}  // namespace bp::cpu

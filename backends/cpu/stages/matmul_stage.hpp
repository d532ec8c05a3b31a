#pragma once
// Matrix products of one input with one or more weights, and what is fused to them.

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/rows/prepare_activations.hpp"
#include "backends/cpu/rows/row_source.hpp"
#include "backends/cpu/stages/pieces.hpp"
#include "backends/cpu/stages/stage.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/overrides.hpp"

namespace bp::cpu {

// y = softcap(scale * activation(x w^T + bias)) + residual.
struct Projection {
  std::shared_ptr<const PreparedWeight> weight;
  const float* bias = nullptr;
  uint32_t out = 0;            // buffer
  uint32_t n_rows = 0;         // of the weight
  BoundKernelPtr kernel = {};  // another plugin's, in place of weight; a MatmulStage has none
};

struct MatmulSpec {
  RowSource input;
  std::vector<Projection> projections;
  bool gated = false;  // projections are gate and up; y = activation(gate) * up goes to gate's out
  uint32_t activation = 0;
  float scale = 1;
  float softcap = 0;
  std::optional<uint32_t> residual;  // buffer, with one projection
  bool out_holds_pass = false;       // what is written has the rows of a pass alone
};

class MatmulStage : public Stage {
 public:
  explicit MatmulStage(MatmulSpec spec);
  // Phase 0 prepares activations, phase 1 multiplies.
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const override;

 private:
  struct Scratch;
  struct Piece;

  struct Cut;

  [[nodiscard]] Cut cut(const StepContext& step) const;
  [[nodiscard]] Piece piece(const Cut& cut, uint32_t item) const;
  void multiply(const StepContext& step, const Worker& worker, Items& items) const;
  void run_piece(const StepContext& step, uint32_t worker, const Activations& x, const Piece& piece,
                 const Scratch& scratch) const;
  void dot_piece(const StepContext& step, const Activations& x, const Projection& projection,
                 const Piece& piece, const RowsView& out, const Scratch& scratch) const;
  void finish(const StepContext& step, const Projection& projection, const Piece& piece,
              const Scratch& scratch) const;

  MatmulSpec spec_;
  ActivationMaker activations_;
  ChunkSize chunk_;
};

}  // namespace bp::cpu

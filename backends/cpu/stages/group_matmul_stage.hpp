#pragma once
// Products of rows with matrices that each row chooses: the experts of a mixture, or a matrix for
// each head. Rows are gathered by matrix, so that only matrices in use are read, and once.

#include <memory>
#include <optional>
#include <vector>

#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/rows/rows_by_matrix.hpp"
#include "backends/cpu/stages/pieces.hpp"
#include "backends/cpu/stages/stage.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

using Matrices = std::vector<std::shared_ptr<const PreparedWeight>>;

// Of a worker that multiplies with any of them.
[[nodiscard]] size_t scratch_bytes(const Matrices& matrices, const Kernels& kernels);

struct GroupMatmulSpec {
  Matrices matrices;  // of n_out rows each
  uint32_t n_groups = 0;
  uint32_t n_in = 0;
  uint32_t n_out = 0;
  const float* bias = nullptr;  // [n_matrices, n_out] or null
  RowCount count;
  uint32_t in = 0;              // buffer [n_in] or [n_groups * n_in]
  bool has_shared_in = false;   // all groups read the whole row
  std::optional<uint32_t> ids;  // buffer; without it group g takes matrix g
  uint32_t out = 0;             // buffer [n_groups * n_out]
};

class GroupMatmulStage : public Stage {
 public:
  explicit GroupMatmulStage(GroupMatmulSpec spec);
  void begin(const StepContext& step, uint32_t phase) const override;
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const override;

 private:
  struct Cut;  // of a step

  [[nodiscard]] uint32_t n_matrices() const { return static_cast<uint32_t>(spec_.matrices.size()); }
  [[nodiscard]] uint32_t n_pairs(const StepContext& step) const {
    return spec_.count.of(step) * spec_.n_groups;
  }
  [[nodiscard]] RowsByMatrix rows(const StepContext& step) const;
  [[nodiscard]] Cut cut(const StepContext& step) const;
  [[nodiscard]] Activations gather(const StepContext& step, const RowsByMatrix& rows,
                                   const RowChunk& chunk, uint8_t* memory) const;
  void store(const StepContext& step, const RowsByMatrix& rows, const RowChunk& chunk, Range strips,
             const float* products) const;

  GroupMatmulSpec spec_;
  ActivationLayout layout_;
  ChunkSize chunk_;
};

}  // namespace bp::cpu

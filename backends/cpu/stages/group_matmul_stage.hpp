#pragma once
// Products of rows with matrices that each row chooses: the experts of a mixture, or a matrix for
// each head. Rows are gathered by matrix, so that only matrices in use are read, and once.

#include <optional>

#include "backends/cpu/stages/stage.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

struct GroupMatmulSpec {
  WeightRows weight;  // of all matrices, n_out rows each
  uint32_t n_groups = 0;
  uint32_t n_out = 0;
  const float* bias = nullptr;  // [n_matrices, n_out] or null
  RowCount count;
  uint32_t in = 0;              // buffer [n_columns] or [n_groups * n_columns]
  bool has_shared_in = false;   // all groups read the whole row
  std::optional<uint32_t> ids;  // buffer; without it group g takes matrix g
  uint32_t out = 0;             // buffer [n_groups * n_out]
};

class GroupMatmulStage : public Stage {
 public:
  explicit GroupMatmulStage(const GroupMatmulSpec& spec);
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;

 private:
  struct Chosen;  // (row, group) pairs by matrix

  [[nodiscard]] Chosen gather(const StepContext& step, uint8_t* scratch) const;
  // Rows [first, first + n) of matrix m, n <= kStripRows, as one of the float types.
  void run_strip(const StepContext& step, const Chosen& chosen, uint32_t m, uint32_t first,
                 uint32_t n, float* decoded) const;
  // Strips [own.begin, own.end) of the matrices in use.
  void run_strips(const StepContext& step, const Chosen& chosen, Range own, float* decoded) const;
  [[nodiscard]] uint32_t n_items(const StepContext& step) const;
  [[nodiscard]] uint32_t n_strips() const { return (spec_.n_out + kStripRows - 1) / kStripRows; }
  [[nodiscard]] uint32_t n_matrices() const { return spec_.weight.n_rows / spec_.n_out; }

  GroupMatmulSpec spec_;
};

}  // namespace bp::cpu

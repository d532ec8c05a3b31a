#pragma once
// From a row source to the forms that weights take. Few rows are prepared by every worker for
// itself, many in a phase of their own.

#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/rows/row_source.hpp"

namespace bp::cpu {

class ActivationMaker {
 public:
  ActivationMaker(const RowSource& source, ActivationForms forms)
      : source_(source), forms_(forms) {}

  [[nodiscard]] size_t scratch_bytes(const Kernels& kernels) const;
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const {
    return bytes(limits.max_rows(source_.count), *limits.kernels);
  }

  // The phase that prepares rows in step.shared; without items where every worker prepares them.
  [[nodiscard]] PhaseItems items(const StepContext& step) const;
  void run(const StepContext& step, uint8_t* scratch, Items& items) const;

  // The activations after that phase; or prepared now, in `scratch`.
  [[nodiscard]] Activations get(const StepContext& step, uint8_t* scratch) const;

 private:
  // Every worker prepares rows for itself up to a panel, which is the unit of sharing: others would
  // only wait for it; and up to so many values, which take less than a phase more (measured), of so
  // many rows at most.
  static constexpr uint32_t kPrivateValues = 10240;
  static constexpr uint32_t kPrivateRows = 16;

  [[nodiscard]] bool is_private(uint32_t n_rows, const Kernels& kernels) const;
  // Whether products read rows of floats that stand in no buffer.
  [[nodiscard]] bool keeps_floats(const Kernels& kernels) const;
  [[nodiscard]] size_t panel_bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] size_t bf16_bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] size_t float_bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] size_t bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] Activations place(const StepContext& step, uint32_t n_rows, uint8_t* memory) const;
  // row: room for one.
  void fill(const StepContext& step, uint32_t begin, uint32_t end, const Activations& out,
            float* row) const;

  RowSource source_;
  ActivationForms forms_;
};

}  // namespace bp::cpu

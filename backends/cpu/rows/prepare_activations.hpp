#pragma once
// From a row source to the forms that weights take. Few rows are prepared by every worker for
// itself, which is cheaper than meeting at a barrier; many are shared out.

#include "backends/cpu/rows/row_source.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

// The forms that a product's weights take; bf16 falls back to floats where kernels have none.
struct ActivationForms {
  bool floats = false;
  bool panels = false;
  bool bf16 = false;
};

class ActivationMaker {
 public:
  ActivationMaker(const RowSource& source, ActivationForms forms)
      : source_(source), forms_(forms) {}

  [[nodiscard]] size_t scratch_bytes(const Kernels& kernels) const;
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const {
    return bytes(limits.max_rows(source_.count.rows), *limits.kernels);
  }

  // The activations, complete for this worker. scratch has scratch_bytes, and so has step.shared
  // shared_bytes. All workers call it alike; it may meet at a barrier.
  [[nodiscard]] Activations make(const StepContext& step, const Worker& worker,
                                 uint8_t* scratch) const;

 private:
  static constexpr uint32_t kPrivateRows = 4;

  [[nodiscard]] bool copies_floats() const { return !source_.is_plain(); }
  [[nodiscard]] size_t panel_bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] size_t bf16_bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] size_t bytes(uint32_t n_rows, const Kernels& kernels) const;
  void fill(const StepContext& step, uint32_t begin, uint32_t end, const Activations& out) const;

  RowSource source_;
  ActivationForms forms_;
};

}  // namespace bp::cpu

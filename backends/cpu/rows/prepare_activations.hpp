#pragma once
// From a row source to the forms that weights take. Few rows are prepared by every worker for
// itself, which is cheaper than meeting at a barrier; many are shared out.

#include "backends/cpu/rows/row_source.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

class ActivationMaker {
 public:
  ActivationMaker(const RowSource& source, bool floats, bool panels)
      : source_(source), floats_(floats), panels_(panels) {}

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

  [[nodiscard]] bool copies_floats() const { return (floats_ || panels_) && !source_.is_plain(); }
  [[nodiscard]] size_t panel_bytes(uint32_t n_rows, const Kernels& kernels) const;
  [[nodiscard]] size_t bytes(uint32_t n_rows, const Kernels& kernels) const;
  void fill(const StepContext& step, uint32_t begin, uint32_t end, const Activations& out) const;

  RowSource source_;
  bool floats_;
  bool panels_;
};

}  // namespace bp::cpu

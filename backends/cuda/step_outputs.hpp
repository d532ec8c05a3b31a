#pragma once
// Rows of a program's outputs that a batch asks for, on their way to the host.

#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/plan/plan.hpp"
#include "backplane/batch.h"

namespace bp::cuda {

class StepOutputs {
 public:
  // max_rows bounds the rows of all outputs together. The plan outlives this.
  Status allocate(Device& device, const Plan& plan, uint32_t max_rows);
  // Pinned memory that the rows of a step come to.
  Result<Memory> make_room(Device& device) const;

  Status load_kernels(Stream& loader) const;

  // Rows of all outputs one after another, but for those of which no logits are wanted.
  Status bring(const bp_batch& batch, const StageContext& context, const Memory& room) const;
  // From there to the host's, where sequences are BP_SEQ_OK. sequence_of of tokens.
  void hand_over(const bp_batch& batch, const std::vector<uint32_t>& sequence_of,
                 const Memory& room) const;

  [[nodiscard]] const std::vector<uint64_t>& widths() const { return widths_; }
  [[nodiscard]] size_t n_device_bytes() const { return gathered_.size(); }

 private:
  [[nodiscard]] const Buffer& buffer_of(const bp_output& output) const;
  Status bring_rows(Stream& stream, const bp_output& output, const float* from, uint8_t*& to) const;

  const Plan* plan_ = nullptr;
  std::vector<uint64_t> widths_;
  size_t room_bytes_ = 0;
  Memory gathered_;  // chosen rows of outputs that every token has
};

}  // namespace bp::cuda

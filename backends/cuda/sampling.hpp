#pragma once
// "bp.device-sampling/1": the last stage of a step, and its results on their way to the host.

#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/sample.hpp"
#include "backends/cuda/plan/plan.hpp"
#include "backplane/batch.h"

namespace bp::cuda {

// The rows of a batch's outputs that are sampled, in their order.
[[nodiscard]] uint32_t n_samples_of(const bp_batch& batch);
void pack_samples(const bp_batch& batch, SampleRequest* out);
// Whether the logits of a row are wanted.
[[nodiscard]] bool gives_logits(const bp_output& output, uint32_t row);

class RowSampler {
 public:
  Status allocate(Device& device, const Plan& plan, uint32_t max_rows);

  // In any step: rows of the context's shape, of which the step's view says how many are sampled.
  Status enqueue(const StageContext& context) const;
  // Results to pinned memory, behind that stage.
  Status bring(Stream& stream, const bp_batch& batch) const;
  // From there to the host's. status of sequences, sequence_of of tokens.
  void hand_over(const bp_batch& batch, const std::vector<uint32_t>& sequence_of) const;

  [[nodiscard]] size_t n_device_bytes() const { return device_.size(); }

 private:
  SampleParams params_;            // but for rows, step and n_rows
  std::vector<uint32_t> buffers_;  // of outputs
  Memory device_;
  Memory results_, candidates_;  // pinned
};

}  // namespace bp::cuda

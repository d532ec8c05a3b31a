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

// Where results come to the host, for each step in flight.
struct SampleRoom {
  Memory results, candidates;  // pinned
};

class RowSampler {
 public:
  Status allocate(Device& device, const Plan& plan, uint32_t max_rows);

  Result<SampleRoom> make_room(Device& device) const;

  // What the step before chose, in place of ids of -1-r: before the first stage, while the results
  // of that step are still there.
  Status put_chosen(Stream& stream, int32_t* tokens, uint32_t n_tokens, uint32_t n_ids) const;
  // In any step: rows of the context's shape, of which the step's view says how many are sampled.
  Status enqueue(const StageContext& context) const;
  // Results to pinned memory, behind that stage.
  Status bring(Stream& stream, const bp_batch& batch, const SampleRoom& room) const;
  // From there to the host's, where sequences are BP_SEQ_OK. sequence_of of tokens; chosen [of each
  // sampled row] gets the tokens that came of them.
  static void hand_over(const bp_batch& batch, const std::vector<uint32_t>& sequence_of,
                        const SampleRoom& room, std::vector<int32_t>& chosen);

  [[nodiscard]] size_t n_device_bytes() const { return device_.size(); }

 private:
  SampleParams params_;            // but for rows, step and n_rows
  std::vector<uint32_t> buffers_;  // of outputs
  Memory device_;
  size_t results_bytes_ = 0, candidates_bytes_ = 0;
};

}  // namespace bp::cuda

#pragma once
// A batch on its way to the device: packed into pinned memory, then copied at once.

#include <span>
#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"
#include "backends/cuda/plan/plan.hpp"
#include "backplane/batch.h"

namespace bp::cuda {

struct ArenaLimits {
  StepShape most;  // of the largest step, padding included
  uint32_t max_sequences = 0;
  uint32_t max_context = 0;
  uint32_t block_size = 0;
  uint32_t n_groups = 0;
  uint32_t n_outputs = 0;
  bool has_states = false;
};

class StepArena {
 public:
  Status allocate(Device& device, const ArenaLimits& limits);

  // Pinned memory that a batch is packed into.
  Result<Memory> make_staging(Device& device) const;

  // Packs the batch, padded to the shape, and copies it. is_running [n_seqs]. The staging is in use
  // until the stream has passed the copy, which comes after all that reads the step before.
  Status send(Stream& stream, const Memory& staging, const bp_batch& batch, const StepShape& shape,
              std::span<const uint8_t> is_running);

  // Where the device finds the step, always the same.
  [[nodiscard]] const StepView* view() const {
    return reinterpret_cast<const StepView*>(device_.data());
  }
  // Its tokens, for what changes them before the first stage.
  [[nodiscard]] int32_t* tokens() const;
  [[nodiscard]] size_t n_bytes() const { return device_.size(); }

 private:
  template <class T>
  struct Array {
    T* host;
    const T* device;
  };
  template <class T>
  Array<T> take(size_t n);
  void pack_tokens(const bp_batch& batch, uint32_t n_tokens, StepView& view);
  void pack_sequences(const bp_batch& batch, std::span<const uint8_t> is_running, StepView& view);
  void pack_tables(const bp_batch& batch, StepView& view);
  void pack_outputs(const bp_batch& batch, const StepShape& shape, StepView& view);

  ArenaLimits limits_;
  uint8_t* host_ = nullptr;  // the staging of the step that is packed
  Memory device_;
  size_t n_used_ = 0;  // bytes of the step that is packed
};

}  // namespace bp::cuda

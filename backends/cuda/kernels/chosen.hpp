#pragma once
// Ids of -1-r ("bp.device-sampling/1", convention 7): what the step before chose takes their place
// before anything reads the tokens of a step.

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"
#include "backplane/ext/device_sampling.h"

namespace bp::cuda {

struct ChosenParams {
  int32_t* tokens = nullptr;               // [n_tokens] of the step
  const bp_row_result* results = nullptr;  // of the step before; there is one for each r
  uint32_t n_tokens = 0;
  uint32_t n_ids = 0;  // of the smallest vocabulary
};

[[nodiscard]] inline Geometry chosen_geometry(const ChosenParams& p) {
  return {{divide_up(p.n_tokens, 256), 1, 1}, 256, 0};
}
[[nodiscard]] Kernel<ChosenParams> chosen_kernel();

}  // namespace bp::cuda

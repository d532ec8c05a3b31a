#pragma once
// Stages that several ops are made of, over buffers and weights of the planner.

#include "backends/cuda/kernels/activation.hpp"
#include "backends/cuda/kernels/elementwise.hpp"
#include "backends/cuda/plan/planner.hpp"

namespace bp::cuda {

inline constexpr uint32_t kNoBuffer = ~0u;

struct NormSpec {
  uint32_t x = kNoBuffer, residual = kNoBuffer, y = kNoBuffer, sum = kNoBuffer;
  const DeviceWeight* weight = nullptr;
  const DeviceWeight* bias = nullptr;
  uint32_t kind = 0;  // BP_NORM_*
  float eps = 0;
  float weight_offset = 0;
  uint32_t group = 0;  // 0: the whole row
};
void add_norm(Planner& planner, const NormSpec& spec);

// y = x by rows [first_row, first_row + y's width) of the weight.
struct ProductSpec {
  uint32_t x = kNoBuffer, y = kNoBuffer;
  const DeviceWeight* weight = nullptr;
  const DeviceWeight* bias = nullptr;
  uint32_t first_row = 0;
  uint32_t first_bias = 0;
  uint32_t activation = 0;
  float scale = 1;
  float softcap = 0;
};
void add_product(Planner& planner, const ProductSpec& spec);

// Parameters but for rows and their number, which are filled in; b is kNoBuffer where there is
// none.
void add_elementwise(Planner& planner, const ElementwiseParams& params, uint32_t a, uint32_t b,
                     uint32_t y);

}  // namespace bp::cuda

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

namespace {

constexpr uint32_t kWeight = 0, kBias = 3, kNorm = 6;  // slots of q; those of k and v follow

}  // namespace

Status run_qkv(const OpCall& call) {
  const auto a = call.attributes<bp_attr_qkv>();
  const bool packed = call.weight(kWeight + 1) == nullptr;
  uint64_t first_row = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const Matrix y = call.output(i);
    const float* bias = call.vector(packed ? kBias : kBias + i);
    if (bias != nullptr) bias += first_row;
    project(call.step().workers(), call.input(0), *call.weight(packed ? kWeight : kWeight + i),
            first_row, bias, y);
    if (packed) first_row += y.width;
    const WeightRows* norm = i < 2 ? call.weight(kNorm + i) : nullptr;
    if (norm == nullptr) continue;
    normalize(y, a.norm_kind, a.norm_eps, a.head_dim, y);
    scale_and_shift(y, norm, a.norm_weight_offset, nullptr, y);
  }
  return {};
}

}  // namespace bp::reference

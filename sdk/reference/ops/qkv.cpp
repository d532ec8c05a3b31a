#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

namespace {

constexpr uint32_t kWeight = 0, kBias = 3, kNorm = 6;  // slots of q; those of k and v follow
constexpr Place kProducts[] = {Place::kProduct, Place::kSecondProduct, Place::kThirdProduct};
constexpr Place kNorms[] = {Place::kNorm, Place::kSecondNorm};

}  // namespace

Status run_qkv(const OpCall& call) {
  const auto a = call.attributes<bp_attr_qkv>();
  bp_attr_norm heads{};
  heads.kind = a.norm_kind, heads.eps = a.norm_eps, heads.group = a.head_dim;
  heads.weight_offset = a.norm_weight_offset;
  const bool packed = call.weight(kWeight + 1) == nullptr;
  uint64_t first_row = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const Matrix y = call.output(i);
    const float* bias = call.vector(packed ? kBias : kBias + i);
    if (bias != nullptr) bias += first_row;
    project(call, kProducts[i], call.input(0), packed ? kWeight : kWeight + i, first_row, bias, y);
    if (packed) first_row += y.width;
    const WeightRows* weight = i < 2 ? call.weight(kNorm + i) : nullptr;
    if (weight != nullptr) norm(call, kNorms[i], y, heads, weight, nullptr, y);
  }
  return {};
}

}  // namespace bp::reference

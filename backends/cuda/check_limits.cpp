#include "backends/cuda/check_limits.hpp"

#include <algorithm>
#include <string>

#include "backends/cuda/kernels/attend.hpp"
#include "backends/cuda/kernels/embed.hpp"
#include "backends/cuda/kernels/experts.hpp"
#include "backends/cuda/kernels/recurrent.hpp"
#include "backends/cuda/plan/planner.hpp"
#include "backplane/dtype.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

constexpr uint64_t kMaxColumns = uint64_t{1} << 20;  // of a weight: a row fits the upload's buffer
constexpr uint64_t kMaxDimension = uint64_t{1} << 30;
constexpr uint64_t kMaxWidth = uint64_t{1} << 24;  // of a value

void check_weight(const bp_weight& weight, CheckReport& report) {
  if (weight.n_parts != 1) {
    report.obstacle(BP_NONE, "weight " + weight_name(weight) +
                                 " has separate scales, zeros or order, which is not supported");
    return;
  }
  const bp_weight_part& part = weight.parts[0];
  if (embed_kernel(part.dtype).function == nullptr) {
    report.obstacle(BP_NONE, "weight " + weight_name(weight) + " is " +
                                 std::string(dtype_name(part.dtype)) + ", which is not supported");
  }
  const bool is_large =
      std::any_of(part.dims, part.dims + part.n_dims, [](uint64_t n) { return n > kMaxDimension; });
  if (is_large || part.dims[part.n_dims - 1] > kMaxColumns) {
    report.obstacle(BP_NONE, "weight " + weight_name(weight) + " is too large in one dimension");
  }
}

void check_op(const ProgramView& program, uint32_t index, CheckReport& report) {
  const bp_op& op = program.ops()[index];
  if (find_plan_op(kind_of(op)) == nullptr) {
    report.obstacle(index, "the cuda backend has no kernels for this op");
  }
  if (kind_of(op) == BP_OP_ROUTE || kind_of(op) == BP_OP_MOE) {
    const bool is_route = kind_of(op) == BP_OP_ROUTE;
    const uint64_t n = is_route ? program.values()[op.inputs[0]].width
                                : data_part(program.weights()[op.weights[0]])->dims[0];
    if (n > kMaxExperts) {
      report.obstacle(index, "more than " + std::to_string(kMaxExperts) + " experts");
    }
  }
  if (kind_of(op) == BP_OP_GATED_DELTA &&
      attributes_of<bp_attr_gated_delta>(op).key_dim > kMaxStateKeyDim) {
    report.obstacle(index, "keys of more than " + std::to_string(kMaxStateKeyDim) + " columns");
  }
  if (kind_of(op) != BP_OP_ATTENTION && kind_of(op) != BP_OP_ATTEND) return;
  const auto a = attributes_of<bp_attr_attention>(op);
  if (a.v_head_dim > kMaxValueDim || a.head_dim > kMaxKeyDim || a.n_heads > 65535) {
    report.obstacle(index, "heads of " + std::to_string(a.head_dim) + " and " +
                               std::to_string(a.v_head_dim) + " columns; the most are " +
                               std::to_string(kMaxKeyDim) + " and " + std::to_string(kMaxValueDim));
  }
}

}  // namespace

void check_limits(const ProgramView& program, CheckReport& report) {
  for (const uint32_t input : program.inputs()) {
    if (program.values()[input].dtype == BP_DTYPE_I32) continue;
    report.obstacle(BP_NONE, "program inputs other than token ids are not supported");
  }
  const uint32_t n_state_groups = program.header().n_state_slots > 0 ? 1 : 0;
  if (program.header().n_kv_groups + n_state_groups > kMaxGroups) {
    report.obstacle(BP_NONE, "more than " + std::to_string(kMaxGroups) + " KV groups and states");
  }
  if (program.outputs().size() > kMaxOutputs) {
    report.obstacle(BP_NONE, "more than " + std::to_string(kMaxOutputs) + " outputs");
  }
  for (const bp_value& value : program.values()) {
    if (value.width > kMaxWidth) report.obstacle(BP_NONE, "a value is wider than 2^24");
  }
  for (const bp_weight& weight : program.weights()) check_weight(weight, report);
  for (uint32_t i = 0; i < program.ops().size(); ++i) check_op(program, i, report);
}

}  // namespace bp::cuda

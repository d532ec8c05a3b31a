#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_group_matmul(const OpCall& call) {
  const uint32_t n_groups = call.attributes<bp_attr_group_matmul>().n_groups;
  const Matrix ids = call.has_input(1) ? call.input(1) : Matrix{};
  group_matmul(call, call.input(0), call.has_input(1) ? &ids : nullptr, n_groups, *call.weight(0),
               call.weight(1), call.output(0));
  return {};
}

}  // namespace bp::reference

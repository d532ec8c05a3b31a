#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_group_sum(const OpCall& call) {
  group_sum(call.input(0), call.input(1), call.output(0));
  return {};
}

}  // namespace bp::reference

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_normalize(const OpCall& call) {
  const auto a = call.attributes<bp_attr_normalize>();
  normalize(call.input(0), a.kind, a.eps, a.group, call.output(0));
  return {};
}

}  // namespace bp::reference

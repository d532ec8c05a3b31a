#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_normalize(const OpCall& call) {
  const auto own = call.attributes<bp_attr_normalize>();
  bp_attr_norm a{};
  a.kind = own.kind, a.eps = own.eps, a.group = own.group;
  norm(call, Place::kNorm, call.input(0), a, nullptr, nullptr, call.output(0));
  return {};
}

}  // namespace bp::reference

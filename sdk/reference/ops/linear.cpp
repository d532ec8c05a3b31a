#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_linear(const OpCall& call) {
  const auto a = call.attributes<bp_attr_linear>();
  const Matrix y = call.output(0);
  project(call, Place::kProduct, call.input(0), 0, 0, call.vector(1), y);
  activate_all(call, a.activation, y);
  return {};
}

}  // namespace bp::reference

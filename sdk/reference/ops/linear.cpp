#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_linear(const OpCall& call) {
  const auto a = call.attributes<bp_attr_linear>();
  const Matrix y = call.output(0);
  project(call.step().workers(), call.input(0), *call.weight(0), 0, call.vector(1), y);
  for (float& value : y.all()) value = static_cast<float>(activate(a.activation, value));
  return {};
}

}  // namespace bp::reference

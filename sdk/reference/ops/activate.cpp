#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_activate(const OpCall& call) {
  const uint32_t activation = call.attributes<bp_attr_activate>().activation;
  const Matrix x = call.input(0), y = call.output(0);
  for (uint64_t i = 0; i < x.n_rows * x.width; ++i) {
    y.data[i] = static_cast<float>(activate(activation, x.data[i]));
  }
  return {};
}

}  // namespace bp::reference

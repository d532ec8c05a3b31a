#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_residual_scale(const OpCall& call) {
  const double scale = call.attributes<bp_attr_residual_scale>().scale;
  const Matrix x = call.input(0), residual = call.input(1), y = call.output(0);
  for (uint64_t i = 0; i < x.n_rows * x.width; ++i) {
    y.data[i] = static_cast<float>(residual.data[i] + scale * x.data[i]);
  }
  return {};
}

}  // namespace bp::reference

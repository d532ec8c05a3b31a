#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_scale(const OpCall& call) {
  const double factor = call.attributes<bp_attr_scale>().factor;
  const Matrix x = call.input(0), y = call.output(0);
  for (uint64_t i = 0; i < x.n_rows * x.width; ++i) {
    y.data[i] = static_cast<float>(x.data[i] * factor);
  }
  return {};
}

}  // namespace bp::reference

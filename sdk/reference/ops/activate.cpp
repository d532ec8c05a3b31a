#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_activate(const OpCall& call) {
  const uint32_t activation = call.attributes<bp_attr_activate>().activation;
  const Matrix x = call.input(0), y = call.output(0);
  std::copy_n(x.data, x.n_rows * x.width, y.data);
  activate_all(call, activation, y);
  return {};
}

}  // namespace bp::reference

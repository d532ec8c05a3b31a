#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_norm(const OpCall& call) {
  const auto a = call.attributes<bp_attr_norm>();
  const Matrix x = call.input(0), y = call.output(0);
  const Matrix sum = call.has_output(1) ? call.output(1) : y;
  std::copy_n(x.data, x.n_rows * x.width, sum.data);
  if (call.has_input(1)) {
    const Matrix residual = call.input(1);
    for (uint64_t i = 0; i < x.n_rows * x.width; ++i) sum.data[i] += residual.data[i];
  }
  norm(call, Place::kNorm, sum, a, call.weight(0), call.weight(1), y);
  return {};
}

}  // namespace bp::reference

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_multiply(const OpCall& call) {
  const Matrix a = call.input(0), y = call.output(0);
  if (!call.has_input(1)) {
    scale_and_shift(a, call.weight(0), call.attributes<bp_attr_multiply>().weight_offset, nullptr,
                    y);
    return {};
  }
  const Matrix b = call.input(1);
  for (uint64_t i = 0; i < a.n_rows * a.width; ++i) y.data[i] = a.data[i] * b.data[i];
  return {};
}

}  // namespace bp::reference

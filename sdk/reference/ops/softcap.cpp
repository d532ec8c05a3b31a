#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_softcap(const OpCall& call) {
  const double cap = call.attributes<bp_attr_softcap>().cap;
  const Matrix x = call.input(0), y = call.output(0);
  for (uint64_t i = 0; i < x.n_rows * x.width; ++i) {
    y.data[i] = static_cast<float>(soft_cap(cap, x.data[i]));
  }
  return {};
}

}  // namespace bp::reference

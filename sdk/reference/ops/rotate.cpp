#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_rotate(const OpCall& call) {
  const auto a = call.attributes<bp_attr_rotate>();
  const Rotation r{a.pairing, a.n_heads, a.head_dim, a.n_dims, a.magnitude};
  rotate(r, call.input(0), call.step().batch().positions, call.vector(0), call.output(0));
  return {};
}

}  // namespace bp::reference

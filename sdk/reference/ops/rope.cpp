#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_rope(const OpCall& call) {
  const auto a = call.attributes<bp_attr_rope>();
  const int32_t* positions = call.step().batch().positions;
  const Rotation q{a.pairing, a.n_heads, a.head_dim, a.n_dims, a.magnitude};
  rotate(q, call.input(0), positions, call.vector(0), call.output(0));
  if (!call.has_input(1)) return {};
  const Rotation k{a.pairing, a.n_kv_heads, a.head_dim, a.n_dims, a.magnitude};
  rotate(k, call.input(1), positions, call.vector(0), call.output(1));
  return {};
}

}  // namespace bp::reference

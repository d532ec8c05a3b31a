#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_route(const OpCall& call) {
  const auto a = call.attributes<bp_attr_route>();
  const Matrix logits = call.input(0), ids = call.output(0), shares = call.output(1);
  for (uint64_t t = 0; t < logits.n_rows; ++t) {
    route_row(a, logits.row(t), call.vector(0), static_cast<uint32_t>(logits.width), ids.row(t),
              shares.row(t));
  }
  return {};
}

}  // namespace bp::reference

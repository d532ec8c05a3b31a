#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_attend(const OpCall& call) {
  attend(call, call.attributes<bp_attr_attention>(), call.vector(0), call.vector(1));
  return {};
}

}  // namespace bp::reference

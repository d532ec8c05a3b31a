#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_embed(const OpCall& call) {
  embed(call, call.attributes<bp_attr_embed>().scale);
  return {};
}

}  // namespace bp::reference

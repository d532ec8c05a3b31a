#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_kv_write(const OpCall& call) {
  kv_write(call, call.attributes<bp_attr_kv_write>().kv_slot, call.input(0), call.input(1));
  return {};
}

}  // namespace bp::reference

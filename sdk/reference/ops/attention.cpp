#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_attention(const OpCall& call) {
  const auto a = call.attributes<bp_attr_attention>();
  if (a.writes_kv != 0) kv_write(call, a.kv_slot, call.input(1), call.input(2));
  attend(call, a, call.vector(0), call.vector(1));
  return {};
}

}  // namespace bp::reference

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_lm_head(const OpCall& call) {
  const auto a = call.attributes<bp_attr_lm_head>();
  const Matrix logits = call.output(0);
  project(call, Place::kProduct, call.input(0), 0, 0, call.vector(1), logits);
  for (float& value : logits.all()) {
    const double scaled = static_cast<double>(value) * a.scale;
    value = static_cast<float>(a.softcap == 0 ? scaled : soft_cap(a.softcap, scaled));
  }
  return {};
}

}  // namespace bp::reference

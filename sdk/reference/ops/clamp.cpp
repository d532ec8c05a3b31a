#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_clamp(const OpCall& call) {
  const auto a = call.attributes<bp_attr_clamp>();
  const Matrix x = call.input(0), y = call.output(0);
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    for (uint64_t i = 0; i < y.width; ++i) {
      y.row(t)[i] = std::min(std::max(x.row(t)[i], a.low), a.high);
    }
  }
  return {};
}

}  // namespace bp::reference

#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_slice_groups(const OpCall& call) {
  const auto a = call.attributes<bp_attr_slice_groups>();
  const Matrix x = call.input(0), y = call.output(0);
  const uint64_t group = x.width / a.n_groups;
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    for (uint64_t g = 0; g < a.n_groups; ++g) {
      std::copy_n(x.row(t) + g * group + a.first, a.n, y.row(t) + g * a.n);
    }
  }
  return {};
}

}  // namespace bp::reference

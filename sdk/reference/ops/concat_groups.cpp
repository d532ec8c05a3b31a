#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_concat_groups(const OpCall& call) {
  const auto attributes = call.attributes<bp_attr_concat_groups>();
  const uint64_t n_groups = attributes.n_groups;
  const Matrix a = call.input(0), b = call.input(1), y = call.output(0);
  const uint64_t a_group = a.width / n_groups, b_group = b.width / attributes.b_groups;
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    for (uint64_t g = 0; g < n_groups; ++g) {
      float* out = y.row(t) + g * (a_group + b_group);
      std::copy_n(a.row(t) + g * a_group, a_group, out);
      const uint64_t of_b = attributes.b_groups == 1 ? 0 : g;
      std::copy_n(b.row(t) + of_b * b_group, b_group, out + a_group);
    }
  }
  return {};
}

}  // namespace bp::reference

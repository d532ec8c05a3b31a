#include <algorithm>
#include <vector>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_add_positions(const OpCall& call) {
  const auto offset = static_cast<int64_t>(call.attributes<bp_attr_add_positions>().offset);
  Step& step = call.step();
  const WeightRows& table = *call.weight(0);
  const Matrix x = call.input(0), y = call.output(0);
  std::vector<float> scratch(table.width());
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    const int64_t at = step.batch().positions[t] + offset;
    if (at < 0 || static_cast<uint64_t>(at) >= table.n_rows()) {
      step.fail(step.sequence_of(t));
      std::fill_n(y.row(t), y.width, 0.0f);
      continue;
    }
    const float* row = table.row(static_cast<uint64_t>(at), scratch.data());
    for (uint64_t i = 0; i < y.width; ++i) y.row(t)[i] = x.row(t)[i] + row[i];
  }
  return {};
}

}  // namespace bp::reference

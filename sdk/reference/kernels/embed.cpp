#include <algorithm>
#include <vector>

#include "kernels/kernels.hpp"

namespace bp::reference {

void embed(const OpCall& call, double scale) {
  Step& step = call.step();
  const WeightRows& table = *call.weight(0);
  const Matrix y = call.output(0);
  std::vector<float> scratch(table.width());
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    const int32_t id = step.batch().tokens[t];
    if (id < 0 || static_cast<uint64_t>(id) >= table.n_rows()) {
      step.fail(step.sequence_of(t));
      std::fill_n(y.row(t), y.width, 0.0f);
      continue;
    }
    const float* row = table.row(static_cast<uint64_t>(id), scratch.data());
    for (uint64_t i = 0; i < y.width; ++i) y.row(t)[i] = static_cast<float>(row[i] * scale);
  }
}

}  // namespace bp::reference

#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_select_rows(const OpCall& call) {
  const Matrix x = call.input(0), y = call.output(0);
  const auto rows =
      call.step().rows_of_output(call.program().values()[call.op().outputs[0]].output);
  for (uint64_t r = 0; r < y.n_rows; ++r) std::copy_n(x.row(rows[r]), x.width, y.row(r));
  return {};
}

}  // namespace bp::reference

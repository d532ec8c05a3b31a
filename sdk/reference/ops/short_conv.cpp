#include <algorithm>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

namespace {

// One token: y [width] of x [width] and the rows before it, history [kernel - 1, width], oldest
// first, which x then joins.
void convolve(const bp_attr_short_conv& a, const WeightRows& w, const float* bias, const float* x,
              uint64_t width, float* history, float* y) {
  const uint32_t n_before = a.kernel - 1;
  std::vector<float> scratch(a.kernel);
  for (uint64_t c = 0; c < width; ++c) {
    const float* weights = w.row(c, scratch.data());
    double sum = bias == nullptr ? 0 : bias[c];
    for (uint32_t j = 0; j < n_before; ++j) sum += double{weights[j]} * history[j * width + c];
    y[c] = static_cast<float>(activate(a.activation, sum + double{weights[n_before]} * x[c]));
  }
  std::copy(history + width, history + n_before * width, history);
  std::copy_n(x, width, history + (n_before - 1) * width);
}

}  // namespace

Status run_short_conv(const OpCall& call) {
  const auto a = call.attributes<bp_attr_short_conv>();
  const Matrix x = call.input(0), y = call.output(0);
  Step& step = call.step();
  const bp_batch& batch = step.batch();
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    const uint32_t begin = batch.query_start[s], end = batch.query_start[s + 1];
    if (!step.is_running(s)) {
      for (uint32_t t = begin; t < end; ++t) std::fill_n(y.row(t), y.width, 0.0f);
      continue;
    }
    float* history = step.states().continued(a.state_slot, batch.state_in[s], batch.state_out[s]);
    for (uint32_t t = begin; t < end; ++t) {
      convolve(a, *call.weight(0), call.vector(1), x.row(t), x.width, history, y.row(t));
    }
  }
  return {};
}

}  // namespace bp::reference

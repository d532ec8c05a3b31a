#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/ops.hpp"

namespace bp::reference {

namespace {

// x / sqrt(|x|^2 + eps)
std::vector<double> unit(const float* x, uint32_t n, double eps) {
  double squares = eps;
  for (uint32_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
  std::vector<double> y(n);
  for (uint32_t i = 0; i < n; ++i) y[i] = x[i] / std::sqrt(squares);
  return y;
}

double softplus(double x) {
  return x > 30 ? x : std::log1p(std::exp(x));
}

// One token of one head; state [key_dim, value_dim].
void update(const bp_attr_gated_delta& a, const std::vector<double>& q,
            const std::vector<double>& k, const float* v, double decay, double beta, float* state,
            float* o) {
  for (uint32_t c = 0; c < a.value_dim; ++c) {
    double remembered = 0, read = 0;
    for (uint32_t i = 0; i < a.key_dim; ++i) {
      remembered += k[i] * decay * state[size_t{i} * a.value_dim + c];
    }
    const double delta = beta * (v[c] - remembered);
    for (uint32_t i = 0; i < a.key_dim; ++i) {
      float& s = state[size_t{i} * a.value_dim + c];
      const double updated = decay * s + k[i] * delta;
      read += q[i] * updated;
      s = static_cast<float>(updated);
    }
    o[c] = static_cast<float>(read * a.scale);
  }
}

// All heads of one token.
void run_token(const OpCall& call, const bp_attr_gated_delta& a, uint32_t t, float* states) {
  const float* q = call.input(0).row(t);
  const float* k = q + size_t{a.n_key_heads} * a.key_dim;
  const float* v = k + size_t{a.n_key_heads} * a.key_dim;
  const float* dt_bias = call.vector(1);
  for (uint32_t h = 0; h < a.n_heads; ++h) {
    const size_t key_head = h / (a.n_heads / a.n_key_heads);
    const double dt = double{call.input(1).row(t)[h]} + (dt_bias == nullptr ? 0 : dt_bias[h]);
    const double decay = std::exp(call.vector(0)[h] * softplus(dt));
    const double beta = 1 / (1 + std::exp(-double{call.input(2).row(t)[h]}));
    update(a, unit(q + key_head * a.key_dim, a.key_dim, a.eps),
           unit(k + key_head * a.key_dim, a.key_dim, a.eps), v + size_t{h} * a.value_dim, decay,
           beta, states + size_t{h} * a.key_dim * a.value_dim,
           call.output(0).row(t) + size_t{h} * a.value_dim);
  }
}

}  // namespace

Status run_gated_delta(const OpCall& call) {
  const auto a = call.attributes<bp_attr_gated_delta>();
  const Matrix o = call.output(0);
  Step& step = call.step();
  const bp_batch& batch = step.batch();
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    const uint32_t begin = batch.query_start[s], end = batch.query_start[s + 1];
    if (!step.is_running(s)) {
      for (uint32_t t = begin; t < end; ++t) std::fill_n(o.row(t), o.width, 0.0f);
      continue;
    }
    float* states = step.states().continued(a.state_slot, batch.state_in[s], batch.state_out[s]);
    for (uint32_t t = begin; t < end; ++t) run_token(call, a, t, states);
  }
  return {};
}

}  // namespace bp::reference

// The reference interpreter with one op of its own: a `linear` that reads each weight once for four
// tokens. Every other op, and a linear that it does not take, is the interpreter's.

#include <cstring>

#include "backplane/reference/backend.hpp"

namespace {

using bp::reference::Matrix;
using bp::reference::OpCall;

typedef float Lanes __attribute__((vector_size(32)));
constexpr uint64_t kLanes = sizeof(Lanes) / sizeof(float);

// y[t] = x row t . w for kRows rows of `stride` floats; sums in float32, by lane, then across.
template <uint64_t kRows>
void dot_rows(const float* x, uint64_t stride, const float* w, uint64_t n, float* y) {
  Lanes sums[kRows] = {};
  uint64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes weights, values;
    std::memcpy(&weights, w + i, sizeof weights);
    for (uint64_t r = 0; r < kRows; ++r) {
      std::memcpy(&values, x + r * stride + i, sizeof values);
      sums[r] += values * weights;
    }
  }
  for (uint64_t r = 0; r < kRows; ++r) {
    float total = 0;
    for (uint64_t lane = 0; lane < kLanes; ++lane) total += sums[r][lane];
    for (uint64_t j = i; j < n; ++j) total += x[r * stride + j] * w[j];
    y[r] = total;
  }
}

// y = x w^T + bias
bp::Status run_linear(const OpCall& call) {
  constexpr uint64_t kRows = 4;
  const Matrix x = call.input(0), y = call.output(0);  // [n_tokens, n_in] and [n_tokens, n_out]
  const auto& w = *call.weight(0);                     // [n_out, n_in]
  const float* bias = call.vector(1);                  // [n_out], or null
  const auto columns = [&](uint64_t begin, uint64_t end, bp::reference::Scratch& scratch) {
    for (uint64_t o = begin; o < end; ++o) {
      const float* row = w.row(o, scratch.floats.data());  // decoded to float32
      const float shift = bias == nullptr ? 0 : bias[o];
      float out[kRows];
      for (uint64_t t = 0; t < x.n_rows;) {
        const uint64_t n = t + kRows <= x.n_rows ? kRows : 1;
        (n == 1 ? dot_rows<1> : dot_rows<kRows>)(x.row(t), x.width, row, x.width, out);
        for (uint64_t r = 0; r < n; ++r) y.row(t + r)[o] = out[r] + shift;
        t += n;
      }
    }
  };
  call.step().workers().for_ranges(y.width, x.width * x.n_rows, columns);  // the host's team
  return {};
}

class FastExecutable final : public bp::reference::ReferenceExecutable {
 public:
  using ReferenceExecutable::ReferenceExecutable;

 protected:
  bp::Status run_op(const OpCall& call) override {
    const bool taken =
        call.kind() == BP_OP_LINEAR && call.attributes<bp_attr_linear>().activation == BP_ACT_NONE;
    return taken ? run_linear(call) : ReferenceExecutable::run_op(call);
  }
};

class FastBackend final : public bp::reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  static bp::Result<std::unique_ptr<bp::Backend>> create(const bp::Host& host,
                                                         const bp::Params& params) {
    BP_ASSIGN(const auto settings, bp::reference::read_settings(params));
    return std::unique_ptr<bp::Backend>(std::make_unique<FastBackend>(host, settings));
  }

 protected:
  std::unique_ptr<bp::reference::ReferenceExecutable> make_executable(
      const bp_program& program, const bp_compile_options& options) override {
    return std::make_unique<FastExecutable>(host(), program, options);
  }
};

constexpr bp_backend_factory kFactory = bp::backend_factory<FastBackend>();

}  // namespace

BP_PLUGIN("fast-linear", "1.0.0", {BP_BACKEND_ID, &kFactory});

// The reference interpreter with one op of its own: a `linear` that reads each weight once for
// three tokens. Every other op, and a linear that it does not take, is the interpreter's.

#include <cstring>

#include "backplane/reference/backend.hpp"

namespace {

using bp::reference::Matrix;
using bp::reference::OpCall;

typedef float Lanes __attribute__((vector_size(32)));
constexpr uint64_t kLanes = sizeof(Lanes) / sizeof(float);
constexpr uint64_t kSums = 4;    // of a row, so that additions do not wait for each other
constexpr uint64_t kTokens = 3;  // 12 sums and two operands fit the 16 registers

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

// y[t] = x row t . w for kRows rows of n floats. The order of additions does not depend on kRows:
// a token's result is the same whoever else is in the batch.
template <uint64_t kRows>
void dot_rows(const float* x, const float* w, uint64_t n, float* y) {
  Lanes sums[kRows][kSums] = {};
  uint64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes) {
    for (uint64_t s = 0; s < kSums; ++s) {
      const Lanes weights = load(w + i + s * kLanes);
      for (uint64_t r = 0; r < kRows; ++r) sums[r][s] += load(x + r * n + i + s * kLanes) * weights;
    }
  }
  for (uint64_t r = 0; r < kRows; ++r) {
    const Lanes sum = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
    y[r] = 0;
    for (uint64_t lane = 0; lane < kLanes; ++lane) y[r] += sum[lane];
    for (uint64_t j = i; j < n; ++j) y[r] += x[r * n + j] * w[j];
  }
}

// y = x w^T + bias
bp::Status run_linear(const OpCall& call) {
  const Matrix x = call.input(0), y = call.output(0);  // [n_tokens, n_in] and [n_tokens, n_out]
  const auto& w = *call.weight(0);                     // [n_out, n_in]
  const float* bias = call.vector(1);                  // [n_out], or null
  const auto columns = [&](uint64_t begin, uint64_t end, bp::reference::Scratch& scratch) {
    for (uint64_t o = begin; o < end; ++o) {
      const float* row = w.row(o, scratch.floats.data());  // decoded to float32
      const float shift = bias == nullptr ? 0 : bias[o];
      float out[kTokens];
      for (uint64_t t = 0; t < x.n_rows;) {
        const uint64_t n = t + kTokens <= x.n_rows ? kTokens : 1;
        (n == 1 ? dot_rows<1> : dot_rows<kTokens>)(x.row(t), row, x.width, out);
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

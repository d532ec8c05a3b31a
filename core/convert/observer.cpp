#include "core/convert/observer.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "backplane/ops.h"
#include "backplane/reference/backend.hpp"

namespace bp::convert {

namespace {

using reference::Matrix;
using reference::OpCall;

// Several products in one op.
constexpr std::array<std::string_view, 3> kTakenApart = {BP_OP_QKV, BP_OP_GATED_MLP, BP_OP_MOE};

class ObservingExecutable : public reference::ReferenceExecutable {
 public:
  ObservingExecutable(const Host& host, const bp_program& program,
                      const bp_compile_options& options, InputObserver& observer)
      : ReferenceExecutable(host, program, options), observer_(observer) {}

 protected:
  Status run_op(const OpCall& call) override {
    if (call.kind() == BP_OP_MATMUL || call.kind() == BP_OP_LINEAR) observe_product(call);
    if (call.kind() == BP_OP_GROUP_MATMUL) observe_groups(call);
    if (call.kind() == BP_OP_LM_HEAD) return {};  // nobody reads the logits
    return ReferenceExecutable::run_op(call);
  }

 private:
  [[nodiscard]] const bp_weight& weight_of(const OpCall& call) const {
    return program().weights()[call.op().weights[0]];
  }

  void observe_product(const OpCall& call) {
    const Matrix x = call.input(0);
    for (uint64_t t = 0; t < x.n_rows; ++t) {
      observer_.add(weight_of(call).name, 1, 0, x.row(t), x.width);
    }
  }

  // x holds a group for each matrix that is used, or one for all of them.
  void observe_groups(const OpCall& call) {
    const Matrix x = call.input(0);
    const bp_weight& weight = weight_of(call);
    const uint64_t n_groups = call.attributes<bp_attr_group_matmul>().n_groups;
    const uint64_t n_matrices = data_part(weight)->dims[0], width = call.weight(0)->width();
    const uint64_t stride = x.width == width ? 0 : width;
    for (uint64_t t = 0; t < x.n_rows; ++t) {
      for (uint64_t g = 0; g < n_groups; ++g) {
        const float id = call.has_input(1) ? call.input(1).row(t)[g] : static_cast<float>(g);
        const auto last = static_cast<float>(n_matrices - 1);
        const auto matrix = static_cast<uint64_t>(std::clamp(id, 0.0f, last));
        observer_.add(weight.name, n_matrices, matrix, x.row(t) + g * stride, width);
      }
    }
  }

  InputObserver& observer_;
};

class ObservingBackend : public reference::ReferenceBackend {
 public:
  static Result<std::unique_ptr<Backend>> create(const Host& host, const Params&) {
    // The extension is this program's own, and its object not const.
    auto* observer = const_cast<InputObserver*>(host.extension<InputObserver>(InputObserver::kId));
    if (observer == nullptr) return invalid_argument("the host offers no observer");
    return std::unique_ptr<Backend>(std::make_unique<ObservingBackend>(host, *observer));
  }
  ObservingBackend(const Host& host, InputObserver& observer)
      : ReferenceBackend(host, {}), observer_(observer) {}

  void check(const bp_program& program, CheckReport& report) override {
    ReferenceBackend::check(program, report);
    const ProgramView view(program);
    for (uint32_t i = 0; i < view.ops().size(); ++i) {
      const std::string_view kind = kind_of(view.ops()[i]);
      if (std::ranges::count(kTakenApart, kind) > 0) {
        report.obstacle(i, std::string(kind) + " has inputs of its own that would not be seen");
      }
    }
  }

 protected:
  std::unique_ptr<reference::ReferenceExecutable> make_executable(
      const bp_program& program, const bp_compile_options& options) override {
    return std::make_unique<ObservingExecutable>(host(), program, options, observer_);
  }

 private:
  InputObserver& observer_;
};

}  // namespace

void InputObserver::add(const std::string& weight, uint64_t n_matrices, uint64_t matrix,
                        const float* x, uint64_t width) {
  Sums& sums = by_weight_[weight];
  if (sums.sums.empty()) {
    sums.width = width;
    sums.sums.resize(n_matrices * width);
    sums.counts.resize(n_matrices);
  }
  double* of_matrix = sums.sums.data() + matrix * width;
  for (uint64_t i = 0; i < width; ++i) of_matrix[i] += double{x[i]} * x[i];
  sums.counts[matrix] += 1;
}

std::map<std::string, InputSquares> InputObserver::squares() const {
  std::map<std::string, InputSquares> out;
  for (const auto& [name, sums] : by_weight_) {
    out[name] = {
        sums.width, {sums.sums.begin(), sums.sums.end()}, {sums.counts.begin(), sums.counts.end()}};
  }
  return out;
}

const bp_backend_factory* observing_backend() {
  static constexpr bp_backend_factory kFactory = backend_factory<ObservingBackend>();
  return &kFactory;
}

}  // namespace bp::convert

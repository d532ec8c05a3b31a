#pragma once
// Kernels of bp.op-kernels/1 in the plainest C++, in double, for tests of backends that run them.

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backplane/op_attributes.hpp"
#include "backplane/op_kernels.hpp"
#include "backplane/ops.h"
#include "backplane/overrides.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::test {

class PlainKernels : public KernelSet {
 public:
  explicit PlainKernels(std::string op) : op_(std::move(op)) {}
  static Result<std::unique_ptr<KernelSet>> create(const Host&, std::string_view op,
                                                   const Params&) {
    return std::unique_ptr<KernelSet>(new PlainKernels(std::string(op)));
  }

  // As compile takes it.
  [[nodiscard]] const bp_override* entry();

  std::function<bool(const KernelPlace&)> accepted;  // unset: every place
  Status failure;                                    // of every run
  float factor = 1;                                  // of every result
  std::vector<std::string> places;                   // prepared: "layers.0.qkv"
  std::atomic<uint64_t> n_rows = 0;                  // computed, of all places

  [[nodiscard]] bool accepts(const KernelPlace& place) const override {
    return !accepted || accepted(place);
  }
  Result<std::unique_ptr<Kernel>> prepare(const KernelPlace& place) override;

 private:
  std::string op_;
  bp_override entry_{};
};

namespace plain_kernels {

// Rows of a weight that a place may lack, decoded.
inline std::vector<float> decode(const KernelPlace& place, uint32_t slot) {
  const bp_weight_part* part = place.only_part(slot);
  if (part == nullptr) return {};
  const uint64_t width = part->dims[part->n_dims - 1];
  const uint64_t n = part->n_dims == 1 ? 1 : part->dims[0];
  std::vector<float> rows(n * width);
  for (uint64_t i = 0; i < n; ++i) {
    const auto* row = static_cast<const uint8_t*>(part->data) + i * part->row_stride_bytes;
    static_cast<void>(reference::decode_row(part->dtype, row, width, rows.data() + i * width));
  }
  return rows;
}

inline double activation(uint32_t kind, double x) {
  if (kind == BP_ACT_SILU) return x / (1 + std::exp(-x));
  if (kind == BP_ACT_GELU) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (kind == BP_ACT_GELU_TANH) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  if (kind == BP_ACT_RELU) return x < 0 ? 0 : x;
  if (kind == BP_ACT_RELU2) return x < 0 ? 0 : x * x;
  if (kind == BP_ACT_SIGMOID) return 1 / (1 + std::exp(-x));
  return kind == BP_ACT_TANH ? std::tanh(x) : x;
}

// Rows part, part + n_parts, ...; the scratch holds one row of results.
class RowKernel : public Kernel {
 public:
  using Function = std::function<void(const float* x, float* y)>;
  RowKernel(PlainKernels& owner, uint64_t n_out, Function function)
      : owner_(owner), n_out_(n_out), function_(std::move(function)) {}

  [[nodiscard]] uint64_t scratch_bytes(uint64_t) const override { return n_out_ * sizeof(float); }
  Status run(const bp_kernel_call& call, uint32_t part, uint32_t n_parts) const override {
    if (reinterpret_cast<uintptr_t>(call.scratch) % 64 != 0) return internal_error("no alignment");
    auto* row = static_cast<float*>(call.scratch);
    for (uint64_t r = part; r < call.n_rows; r += n_parts) {
      function_(call.x + r * call.x_stride, row);
      for (uint64_t i = 0; i < n_out_; ++i) call.y[r * call.y_stride + i] = row[i] * owner_.factor;
      ++owner_.n_rows;
    }
    return owner_.failure;
  }

 private:
  PlainKernels& owner_;
  uint64_t n_out_;
  Function function_;
};

inline RowKernel::Function product(const KernelPlace& place) {
  const uint64_t n_in = place.c().n_in, n_out = place.c().n_out;
  return [=, w = decode(place, 0)](const float* x, float* y) {
    for (uint64_t o = 0; o < n_out; ++o) {
      double sum = 0;
      for (uint64_t i = 0; i < n_in; ++i) sum += double{x[i]} * double{w[o * n_in + i]};
      y[o] = static_cast<float>(sum);
    }
  };
}

inline RowKernel::Function normalization(const KernelPlace& place) {
  const auto a = *static_cast<const bp_attr_norm*>(place.c().attributes);
  const uint64_t width = place.c().n_in, group = a.group == 0 ? width : a.group;
  return [=, weight = decode(place, 0), bias = decode(place, 1)](const float* x, float* y) {
    for (uint64_t first = 0; first < width; first += group) {
      double mean = 0, variance = 0;
      for (uint64_t i = first; i < first + group; ++i) mean += x[i] / double(group);
      if (a.kind == BP_NORM_RMS) mean = 0;
      for (uint64_t i = first; i < first + group; ++i) {
        variance += (x[i] - mean) * (x[i] - mean) / double(group);
      }
      for (uint64_t i = first; i < first + group; ++i) {
        double value = (x[i] - mean) / std::sqrt(variance + a.eps);
        if (!weight.empty()) value *= double{weight[i % weight.size()]} + a.weight_offset;
        if (!bias.empty()) value += double{bias[i % bias.size()]};
        y[i] = static_cast<float>(value);
      }
    }
  };
}

inline RowKernel::Function activation(const KernelPlace& place) {
  const uint32_t kind = static_cast<const bp_attr_activate*>(place.c().attributes)->activation;
  return [=, n = place.c().n_in](const float* x, float* y) {
    for (uint64_t i = 0; i < n; ++i) y[i] = static_cast<float>(activation(kind, x[i]));
  };
}

}  // namespace plain_kernels

inline Result<std::unique_ptr<Kernel>> PlainKernels::prepare(const KernelPlace& place) {
  places.emplace_back(place.name());
  const auto function = op_ == BP_OP_LINEAR ? plain_kernels::product(place)
                        : op_ == BP_OP_NORM ? plain_kernels::normalization(place)
                                            : plain_kernels::activation(place);
  return std::unique_ptr<Kernel>(new plain_kernels::RowKernel(*this, place.c().n_out, function));
}

inline const bp_override* PlainKernels::entry() {
  static constexpr bp_op_kernels_factory kFactory = op_kernels_factory<PlainKernels>();
  entry_ = make_growable<bp_override>();
  entry_.op = op_.c_str();
  entry_.plugin = "plain";
  entry_.factory = &kFactory;
  entry_.set = reinterpret_cast<bp_kernel_set*>(static_cast<KernelSet*>(this));
  return &entry_;
}

// Options with overrides, whose list outlives them.
inline bp_compile_options with_overrides(bp_compile_options options,
                                         const std::vector<const bp_override*>& overrides) {
  options.required |= BP_COMPILE_OVERRIDES;
  options.n_overrides = static_cast<uint32_t>(overrides.size());
  options.overrides = overrides.data();
  return options;
}

// What the backends of overriding_factory are given at compile.
inline std::vector<const bp_override*>& overrides_of_all() {
  static std::vector<const bp_override*> overrides;
  return overrides;
}

// A backend's table whose compile adds overrides_of_all().
template <const bp_backend_factory& kBase>
bp_backend_factory overriding_factory() {
  bp_backend_factory table = kBase;
  table.compile = [](bp_backend* backend, const bp_program* program,
                     const bp_compile_options* options, bp_executable** out, bp_error* error) {
    const auto mine = with_overrides(*options, overrides_of_all());
    return kBase.compile(backend, program, &mine, out, error);
  };
  return table;
}

}  // namespace bp::test

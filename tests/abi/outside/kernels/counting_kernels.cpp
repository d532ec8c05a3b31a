// Products with weights of one type, as the reference computes them, and the number of them.

#include <atomic>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/op_kernels.hpp"
#include "backplane/reference/decode.hpp"
#include "backplane/reference/dot.hpp"

namespace {

class Product final : public bp::Kernel {
 public:
  Product(const bp_weight_part& weight, std::atomic<uint64_t>& n_rows)
      : n_in_(weight.dims[1]), n_out_(weight.dims[0]), n_rows_(n_rows), rows_(n_in_ * n_out_) {
    const auto* data = static_cast<const uint8_t*>(weight.data);
    for (uint64_t o = 0; o < n_out_; ++o) {
      const auto* row = data + o * weight.row_stride_bytes;
      static_cast<void>(
          bp::reference::decode_row(weight.dtype, row, n_in_, rows_.data() + o * n_in_));
    }
  }

  bp::Status run(const bp_kernel_call& call, uint32_t part, uint32_t n_parts) const override {
    for (uint64_t o = n_out_ * part / n_parts; o < n_out_ * (part + 1) / n_parts; ++o) {
      for (uint64_t r = 0; r < call.n_rows; ++r) {
        const double y =
            bp::reference::dot(call.x + r * call.x_stride, rows_.data() + o * n_in_, n_in_);
        call.y[r * call.y_stride + o] = static_cast<float>(y);
      }
    }
    if (part == 0) n_rows_ += call.n_rows;
    return {};
  }

 private:
  uint64_t n_in_, n_out_;
  std::atomic<uint64_t>& n_rows_;
  std::vector<float> rows_;  // [n_out, n_in]
};

class CountingKernels final : public bp::KernelSet {
 public:
  static bp::Result<std::unique_ptr<bp::KernelSet>> create(const bp::Host& host,
                                                           std::string_view op,
                                                           const bp::Params& config) {
    if (op != BP_OP_LINEAR) return bp::unsupported("counting-kernels knows the op linear only");
    const auto dtype = bp::dtype_from_name(config.get_string("dtype", "q8_0"));
    if (!dtype) return bp::invalid_argument("dtype names no element type");
    return std::unique_ptr<bp::KernelSet>(new CountingKernels(host, *dtype));
  }
  ~CountingKernels() override {
    host_.log(BP_LOG_WARNING, "counting-kernels: " + std::to_string(n_places_) + " places, " +
                                  std::to_string(n_rows_) + " rows");
  }

  [[nodiscard]] bool accepts(const bp::KernelPlace& place) const override {
    const bp_weight_part* weight = place.only_part(0);
    return weight != nullptr && weight->dtype == dtype_;
  }
  bp::Result<std::unique_ptr<bp::Kernel>> prepare(const bp::KernelPlace& place) override {
    ++n_places_;
    return std::unique_ptr<bp::Kernel>(new Product(*place.only_part(0), n_rows_));
  }

 private:
  CountingKernels(const bp::Host& host, bp_dtype dtype) : host_(host), dtype_(dtype) {}

  bp::Host host_;
  bp_dtype dtype_;
  uint64_t n_places_ = 0;
  std::atomic<uint64_t> n_rows_ = 0;  // multiplied
};

constexpr bp_op_kernels_factory kFactory = bp::op_kernels_factory<CountingKernels>();

}  // namespace

BP_PLUGIN("counting-kernels", "1.0.0", {BP_OP_KERNELS_ID, &kFactory});

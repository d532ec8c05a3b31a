#pragma once
// The base backend's side of bp.op-kernels/1: finds for each place of a program the kernel that is
// to compute it, and runs it. See op_kernels.h for the words.

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/backend.h"
#include "backplane/dtype.hpp"
#include "backplane/program_view.hpp"

namespace bp {

// The first error of kernels that run at once, kept until the step's end.
class KernelFailure {
 public:
  void set(Status status) {  // [any-thread]
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    failed_.store(true, std::memory_order_release);
  }
  // Gives it away. No kernel runs.
  Status take() {
    if (!failed_.load(std::memory_order_acquire)) return {};
    failed_.store(false, std::memory_order_relaxed);
    return std::exchange(status_, {});
  }

 private:
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Status status_;
};

// A kernel at its place.
class BoundKernel {
 public:
  BoundKernel(std::shared_ptr<const bp_op_kernels_factory> table, bp_kernel* kernel,
              std::string who, std::shared_ptr<KernelFailure> failure)
      : table_(std::move(table)),
        kernel_(kernel),
        who_(std::move(who)),
        failure_(std::move(failure)) {}
  BoundKernel(const BoundKernel&) = delete;
  BoundKernel& operator=(const BoundKernel&) = delete;
  ~BoundKernel() { table_->release(kernel_); }

  [[nodiscard]] uint64_t scratch_bytes(uint64_t n_rows) const {
    return table_->scratch_bytes == nullptr ? 0 : table_->scratch_bytes(kernel_, n_rows);
  }
  // An error goes to the KernelFailure of the overrides. [any-thread]
  void run(const bp_kernel_call& call, uint32_t part, uint32_t n_parts) const {
    bp_error error{};
    const bp_status status = table_->run(kernel_, &call, part, n_parts, &error);
    if (status != BP_OK) failure_->set(from_c(status, error).with_context(who_));
  }

 private:
  std::shared_ptr<const bp_op_kernels_factory> table_;
  bp_kernel* kernel_;
  std::string who_;  // for messages
  std::shared_ptr<KernelFailure> failure_;
};

using BoundKernelPtr = std::shared_ptr<const BoundKernel>;

// What compile is given. Each of the functions that look for a kernel answers null where the base
// is to compute the place itself.
class Overrides {
 public:
  Overrides() = default;

  // `computed`: the ops whose places this backend lets others compute.
  static Result<Overrides> create(const bp_compile_options& options,
                                  std::span<const std::string_view> computed) {
    Overrides made;
    for (uint32_t i = 0; i < options.n_overrides; ++i) {
      const bp_override entry = copy_growable(options.overrides[i]);
      if (std::find(computed.begin(), computed.end(), entry.op) == computed.end()) {
        return unsupported("this backend runs no foreign kernels for the op " +
                           std::string(entry.op));
      }
      made.entries_.push_back(
          {entry.op, entry.plugin, entry.set,
           std::make_shared<const bp_op_kernels_factory>(copy_growable(entry.factory))});
    }
    made.max_rows_ = std::max(options.max_step_tokens, options.max_output_rows);
    if (!made.entries_.empty()) made.failure_ = std::make_shared<KernelFailure>();
    return made;
  }

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // Null without overrides.
  [[nodiscard]] const std::shared_ptr<KernelFailure>& failure() const { return failure_; }

  // Rows [first, first + n) of a weight.
  Result<BoundKernelPtr> linear(const bp_op& op, const bp_weight& weight, uint64_t first,
                                uint64_t n) const {
    if (empty()) return BoundKernelPtr();
    bp_weight_part part = *data_part(weight);
    part.dims[0] = n, part.dims[1] = part.dims[part.n_dims - 1], part.n_dims = 2;
    part.data = static_cast<const uint8_t*>(part.data) + first * part.row_stride_bytes;
    part.file_offset += first * part.row_stride_bytes;
    part.n_bytes = (n - 1) * part.row_stride_bytes + row_bytes(part.dtype, part.dims[1]);
    bp_weight rows = weight;
    rows.parts = &part;
    const bp_weight* weights[] = {&rows};
    return bind(BP_OP_LINEAR, op, nullptr, weights, part.dims[1], n);
  }
  // Either weight may be null.
  Result<BoundKernelPtr> norm(const bp_op& op, const bp_attr_norm& attributes,
                              const bp_weight* weight, const bp_weight* bias,
                              uint64_t width) const {
    const bp_weight* weights[] = {weight, bias};
    return bind(BP_OP_NORM, op, &attributes, weights, width, width);
  }
  Result<BoundKernelPtr> activate(const bp_op& op, uint32_t activation, uint64_t width) const {
    auto attributes = make_growable<bp_attr_activate>();
    attributes.activation = activation;
    return bind(BP_OP_ACTIVATE, op, &attributes, {}, width, width);
  }

 private:
  struct Entry {
    std::string_view op;
    std::string_view plugin;
    bp_kernel_set* set;
    std::shared_ptr<const bp_op_kernels_factory> table;
  };

  Result<BoundKernelPtr> bind(std::string_view kind, const bp_op& op, const void* attributes,
                              std::span<const bp_weight* const> weights, uint64_t n_in,
                              uint64_t n_out) const {
    const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& e) { return e.op == kind; });
    if (entry == entries_.end()) return BoundKernelPtr();
    auto place = make_growable<bp_kernel_place>();
    place.op = entry->op.data();
    place.name = op.name == nullptr ? "" : op.name;
    place.attributes = attributes;
    place.n_weights = static_cast<uint32_t>(weights.size());
    place.weights = weights.data();
    place.n_in = n_in;
    place.n_out = n_out;
    place.max_rows = max_rows_;
    if (entry->table->accepts(entry->set, &place) == 0) return BoundKernelPtr();
    const std::string who = "kernels of plugin '" + std::string(entry->plugin) + "' for " +
                            std::string(kind) + " in " + describe(op);
    bp_kernel* kernel = nullptr;
    bp_error error{};
    const bp_status status = entry->table->prepare(entry->set, &place, &kernel, &error);
    if (status != BP_OK) return from_c(status, error).with_context(who);
    if (kernel == nullptr) return internal_error(who + ": prepare succeeded without a kernel");
    return BoundKernelPtr(std::make_shared<BoundKernel>(entry->table, kernel, who, failure_));
  }

  std::vector<Entry> entries_;
  uint64_t max_rows_ = 0;
  std::shared_ptr<KernelFailure> failure_;
};

}  // namespace bp

#pragma once
// Kernels under test, on their way into the reference backend: each call is run in several numbers
// of parts, at once, on rows with gaps between them, and what may not be written is looked at.

#include <atomic>
#include <memory>
#include <string>

#include "backplane/op_kernels.hpp"
#include "backplane/overrides.hpp"
#include "sdk/conformance/subject.hpp"

namespace bp::conformance {

class CheckedKernels final : public KernelSet {
 public:
  // Skips where the plugin has no kernels for the op.
  CheckedKernels(Subject& subject, std::string op);
  ~CheckedKernels() override;
  static Result<std::unique_ptr<KernelSet>> create(const Host&, std::string_view, const Params&);

  [[nodiscard]] bool accepts(const KernelPlace& place) const override;
  Result<std::unique_ptr<Kernel>> prepare(const KernelPlace& place) override;

  // As compile takes it.
  [[nodiscard]] bp_override entry();
  [[nodiscard]] uint32_t n_places() const { return n_places_; }  // accepted and prepared
  [[nodiscard]] uint64_t n_calls() const { return n_calls_; }
  // What accepts did wrong, or "".
  [[nodiscard]] const std::string& complaint() const { return complaint_; }

 private:
  friend class CheckedKernel;

  std::string op_, plugin_;
  bp_host host_;
  bp_op_kernels_factory table_;
  bp_kernel_set* set_ = nullptr;
  uint32_t n_places_ = 0;
  std::atomic<uint64_t> n_calls_ = 0;
  mutable std::string complaint_;
};

}  // namespace bp::conformance

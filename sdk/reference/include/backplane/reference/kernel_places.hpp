#pragma once
// Which places of a program's ops other plugins' kernels compute.

#include <map>
#include <utility>

#include "backplane/overrides.hpp"
#include "backplane/program_view.hpp"

namespace bp::reference {

// Places within one op.
enum class Place : uint8_t {
  kProduct,        // the one, or q, or gate
  kSecondProduct,  // k, or up
  kThirdProduct,   // v, or down
  kNorm,           // the one, or of q's heads
  kSecondNorm,     // of k's heads
  kActivation,
};

class KernelPlaces {
 public:
  // Asks the kernels about every place of the program, which outlives this.
  Status bind(const ProgramView& program, const Overrides& overrides);

  // Whether kernels compute part of the op.
  [[nodiscard]] bool contains(const bp_op& op) const {
    const auto first = kernels_.lower_bound({&op, Place::kProduct});
    return first != kernels_.end() && first->first.first == &op;
  }
  // nullptr where the interpreter computes the place itself.
  [[nodiscard]] const BoundKernel* find(const bp_op& op, Place place) const {
    const auto found = kernels_.find({&op, place});
    return found == kernels_.end() ? nullptr : found->second.get();
  }
  // Of the kernels that ran since the last call.
  Status take_failure() const { return failure_ == nullptr ? Status() : failure_->take(); }

 private:
  Status bind_op(const ProgramView& program, const Overrides& overrides, const bp_op& op);
  Status bind_qkv(const ProgramView& program, const Overrides& overrides, const bp_op& op);
  Status bind_gated_mlp(const ProgramView& program, const Overrides& overrides, const bp_op& op);
  Status keep(const bp_op& op, Place place, Result<BoundKernelPtr> kernel);

  std::map<std::pair<const bp_op*, Place>, BoundKernelPtr> kernels_;
  std::shared_ptr<KernelFailure> failure_;
};

}  // namespace bp::reference

#pragma once
// Another plugin's kernels for one op, behind the C ABI.

#include <memory>
#include <string>

#include "backplane/op_kernels.h"
#include "backplane/status.hpp"
#include "core/plugin/params.hpp"

namespace bp::plugin {

// Destroyed after the executables that it was handed to.
class KernelSetHandle {
 public:
  // `host` outlives the handle. Fails when a required function is missing from the table.
  static Result<KernelSetHandle> create(const bp_op_kernels_factory* factory, const bp_host* host,
                                        const std::string& op, const std::string& plugin,
                                        const ParamMap& config);
  KernelSetHandle(KernelSetHandle&&) noexcept = default;
  KernelSetHandle& operator=(KernelSetHandle&&) = delete;

  // As compile takes it; stays where it is when the handle is moved.
  [[nodiscard]] const bp_override* c() const { return &state_->entry; }

 private:
  struct State {
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State();

    std::string op, plugin;
    bp_op_kernels_factory table{};
    bp_override entry{};
  };
  explicit KernelSetHandle(std::unique_ptr<const State> state) : state_(std::move(state)) {}

  std::unique_ptr<const State> state_;
};

}  // namespace bp::plugin

#pragma once
// Calls into a plugin: its error becomes a Status, and an exception, which the ABI forbids, too.

#include <string>
#include <utility>

#include "backplane/plugin.hpp"
#include "backplane/status.hpp"

namespace bp::plugin {

// f(bp_error*) -> bp_status. A failure always has a message.
template <class F>
Status call(F&& f) {
  bp_error error{};
  try {
    const bp_status code = f(&error);
    Status status = from_c(code, error);
    if (status.ok() || !status.message().empty()) return status;
    return {status.code(), "it fails with code " + std::to_string(code) + " and says no reason"};
  } catch (...) {
    return internal_error("the plugin threw an exception across the ABI, which it must not");
  }
}

// Calls to one executable and to its extensions. After DEVICE_LOST the ABI allows no more of them
// but destroy: they give that error again. [step]
class ExecutableCalls {
 public:
  template <class F>
  Status operator()(F&& f) {
    if (!lost_.ok()) return lost_;
    const Status status = call(std::forward<F>(f));
    if (status.code() == Code::kDeviceLost) lost_ = status;
    return status;
  }

 private:
  Status lost_;
};

}  // namespace bp::plugin

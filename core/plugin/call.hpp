#pragma once
// Calls into a plugin: its error becomes a Status, and an exception, which the ABI forbids, too.

#include "backplane/plugin.hpp"
#include "backplane/status.hpp"

namespace bp::plugin {

// f(bp_error*) -> bp_status.
template <class F>
Status call(F&& f) {
  bp_error error{};
  try {
    return from_c(f(&error), error);
  } catch (...) {
    return internal_error("the plugin threw an exception across the ABI, which it must not");
  }
}

}  // namespace bp::plugin

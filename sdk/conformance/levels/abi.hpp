#pragma once
// The parts of the level abi.

#include "backplane/backend.h"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/test.hpp"

namespace bp::conformance {

void add_abi_unknown_tests(Tests& tests);
void add_abi_error_tests(Tests& tests);

[[nodiscard]] inline bp_backend_factory table_of(Subject& subject) {
  return subject.factory<bp_backend_factory>(BP_BACKEND_ID);
}

}  // namespace bp::conformance

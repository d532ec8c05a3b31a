#pragma once
// The factory of the reference interpreter, which results are compared with.

#include "backplane/backend.h"

namespace bp::conformance {

extern const bp_backend_factory kReference;

}  // namespace bp::conformance

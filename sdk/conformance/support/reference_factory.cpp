#include "sdk/conformance/support/reference_factory.hpp"

#include "backplane/reference/backend.hpp"

namespace bp::conformance {

constexpr bp_backend_factory kReference = backend_factory<reference::ReferenceBackend>();

}  // namespace bp::conformance

#include "backplane/reference/backend.hpp"

namespace {

constexpr bp_backend_factory kFactory = bp::backend_factory<bp::reference::ReferenceBackend>();

}  // namespace

BP_PLUGIN("reference", "0.1.0", {BP_BACKEND_ID, &kFactory});

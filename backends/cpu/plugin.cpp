#include "backends/cpu/backend.hpp"

namespace {
constexpr bp_backend_factory kFactory = bp::backend_factory<bp::cpu::CpuBackend>();
}  // namespace

BP_PLUGIN("cpu", "0.1.0", {BP_BACKEND_ID, &kFactory});

// A backend that is correct but for what its library says of itself. One mistake is compiled in.

#include <cstring>

#include "backplane/reference/backend.hpp"

namespace {

constexpr bp_backend_factory kFactory = bp::backend_factory<bp::reference::ReferenceBackend>();
constexpr const char* kKinds[] = {BP_BACKEND_ID};

const void* get_factory(const char* id) {
#ifdef MUTANT_NONSENSE_ID
  return id == nullptr ? nullptr : &kFactory;
#else
  return id != nullptr && std::strcmp(id, BP_BACKEND_ID) == 0 ? &kFactory : nullptr;
#endif
}

#ifdef MUTANT_OTHER_VERSION
constexpr const char* kVersion = "1.0.1";
#else
constexpr const char* kVersion = "1.0.0";
#endif

constexpr bp_plugin kPlugin = {sizeof(bp_plugin), BP_ABI_MAJOR, BP_ABI_MINOR, 1,
                               MUTANT_ID,         kVersion,     kKinds,       get_factory};

}  // namespace

#ifdef MUTANT_ANY_MAJOR
constexpr bool kAnyMajor = true;
#else
constexpr bool kAnyMajor = false;
#endif

extern "C" BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t host_abi_major) {
#ifdef MUTANT_ALLOCATES
  static const bp_plugin* copy = new bp_plugin(kPlugin);
  if (host_abi_major == BP_ABI_MAJOR) return copy;
#endif
  return kAnyMajor || host_abi_major == BP_ABI_MAJOR ? &kPlugin : nullptr;
}

#ifdef MUTANT_SECOND_SYMBOL
extern "C" BP_EXPORT int mutant_helper() {
  return 1;
}
#endif

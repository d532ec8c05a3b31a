// Breaks the rule that no exception crosses the ABI, at the first call.
#include <stdexcept>

#include "backplane/plugin.hpp"

extern "C" BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t) {
  throw std::runtime_error("thrown by bp_plugin_query");
}

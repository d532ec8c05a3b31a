// Refuses every host.
#include "backplane/plugin.hpp"

extern "C" BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t) {
  return nullptr;
}

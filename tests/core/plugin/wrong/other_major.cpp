// Answers the query of any host, with a major of its own.
#include "backplane/plugin.hpp"

extern "C" BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t) {
  static const char* const kinds[] = {"bp.scheduler/1"};
  static const bp_plugin plugin = {sizeof(bp_plugin), 7,       0,     1,
                                   "other-major",     "1.0.0", kinds, nullptr};
  return &plugin;
}

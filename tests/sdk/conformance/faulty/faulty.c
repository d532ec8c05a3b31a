/* A plugin that goes wrong when the tool first asks it for a factory. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backplane/plugin.h"

static const void* get_factory(const char* factory_id) {
  (void)factory_id;
  fprintf(stderr, "faulty plugin at work\n");
#if defined(FAULTY_CRASHES)
  abort();
#elif defined(FAULTY_EXITS)
  exit(0);
#else
  for (;;) pause();
#endif
  return NULL;
}

static const char* const kinds[] = {"com.example.nothing/1"};
static const bp_plugin plugin = {sizeof(bp_plugin), BP_ABI_MAJOR, BP_ABI_MINOR, 1, FAULTY_ID,
                                 "1.0.0",           kinds,        get_factory};

BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t host_abi_major) {
  return host_abi_major == BP_ABI_MAJOR ? &plugin : NULL;
}

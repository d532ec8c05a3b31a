/* What the kept plugins share. Small on purpose: they are committed as binaries. */
#ifndef KEPT_H_
#define KEPT_H_

#include <string.h>

#include "backplane/plugin.h"

/* Copies what both sides know of a growable struct. */
#define READ(copy, other)           \
  memset(&(copy), 0, sizeof(copy)); \
  memcpy(&(copy), (other),          \
         (other)->struct_size < sizeof(copy) ? (other)->struct_size : sizeof(copy))

static inline bp_status fail(bp_status status, const char* sentence, bp_error* error) {
  if (error != NULL) {
    error->status = status;
    strncpy(error->message, sentence, sizeof error->message - 1);
    error->message[sizeof error->message - 1] = 0;
  }
  return status;
}

#define KEPT_PLUGIN(id, kind, factory)                                               \
  static const void* get_factory(const char* wanted) {                               \
    return wanted != NULL && strcmp(wanted, kind) == 0 ? &(factory) : NULL;          \
  }                                                                                  \
  static const char* const kinds[] = {kind};                                         \
  static const bp_plugin plugin = {sizeof plugin, BP_ABI_MAJOR, BP_ABI_MINOR, 1, id, \
                                   "1.0.0",       kinds,        get_factory};        \
  const bp_plugin* bp_plugin_query(uint32_t host_abi_major) {                        \
    return host_abi_major == BP_ABI_MAJOR ? &plugin : NULL;                          \
  }

#endif

/* backplane/host.h: what the host offers a plugin.
 *
 *  1. A plugin works on a bare host: the host itself, its log and its get_extension may be NULL, and
 *     get_extension may return NULL for every id.
 *  2. The host stays valid until every object created with it is destroyed.
 *  3. Extensions are growable structs, one header each under ext/.
 */
#ifndef BACKPLANE_HOST_H_
#define BACKPLANE_HOST_H_

#include "backplane/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_LOG_DEBUG 0u   /* for the plugin's author */
#define BP_LOG_INFO 1u    /* what a user may want to know */
#define BP_LOG_WARNING 2u /* it works, but not as was asked or hoped */
#define BP_LOG_ERROR 3u   /* something failed */

/* The host, as a plugin sees it. Growable. */
typedef struct bp_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* of the host */
  void* user;         /* passed back as the first argument */

  /* One line, UTF-8, without a newline at its end. [any-thread] */
  void (*log)(void* user, uint32_t level, bp_str message);

  /* A struct of functions, valid as long as the host, or NULL. [any-thread] */
  const void* (*get_extension)(void* user, const char* extension_id);
} bp_host;

/* Progress of long work (compile, warm_up, reading). Growable. */
typedef struct bp_progress {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;

  /* done of total units of work; may be called often, and from the calling thread only. A return
   * other than 0 asks to stop: the plugin then returns BP_CANCELLED. */
  int32_t (*report)(void* user, uint64_t done, uint64_t total);
} bp_progress;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_HOST_H_ */

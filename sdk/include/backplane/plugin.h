/* backplane/plugin.h: the one symbol a plugin exports, and what every other header uses.
 *
 * Conventions, for all headers in this folder:
 *  1. C11 and C++17; only <stddef.h> and <stdint.h> are included. No bool, enum, bit-field, long or
 *     varargs. size_t appears in bp_str only.
 *  2. A growable struct begins with `uint32_t struct_size`: the filling side writes sizeof of its own
 *     version, the reading side copies min(struct_size, sizeof) into zeroed memory once and then tests
 *     members for null. Growable structs grow only at their end and are passed by pointer (arrays of
 *     them are arrays of pointers). Structs marked "frozen" never change and may stand in arrays.
 *  3. Growable data with a `required` member owns one bit for each field whose neglect would change a
 *     result. A consumer refuses bits that it does not know with BP_UNSUPPORTED.
 *  4. Ids are strings: "bp.backend/1", third parties "com.vendor.noun/1". An unknown id gives NULL.
 *  5. Fallible functions return bp_status and, when it is not BP_OK, fill the caller's bp_error (which
 *     may be NULL). Nothing is allocated across the boundary. Outputs are untouched on error.
 *  6. Who creates destroys. Pointers are valid during the call unless a sentence says otherwise.
 *  7. Thread tags: [any-thread] at any time; [control] never two at a time for one object, and never
 *     together with [step]; [step] never two at a time for one object, but from any thread.
 *  8. No exception, exit, abort or longjmp crosses the boundary.
 *  9. A plugin has no initialisers of its own, and changes no signal handler, locale, environment
 *     variable or working directory. All its state hangs on objects it created.
 */
#ifndef BACKPLANE_PLUGIN_H_
#define BACKPLANE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* While the major is 0, a plugin loads only when its minor is equal to the host's. */
#define BP_ABI_MAJOR 0u
#define BP_ABI_MINOR 1u

/* Marks a weight, value or index that is absent. */
#define BP_NONE 0xffffffffu

typedef int32_t bp_status; /* BP_OK or why not */
#define BP_OK 0               /* done */
#define BP_INVALID_ARGUMENT 1 /* the caller's data is wrong; the call can never succeed */
#define BP_UNSUPPORTED 2      /* valid, but this plugin cannot do it; the message names what */
#define BP_OUT_OF_MEMORY 3    /* host or device memory; the message says how much was needed */
#define BP_IO_ERROR 4         /* a file or device could not be read or written */
#define BP_DEVICE_LOST 5      /* the device is gone; only destroy may be called */
#define BP_CANCELLED 6        /* the caller asked for it */
#define BP_INTERNAL 7         /* a bug in the plugin */

/* Bytes, not NUL-terminated. Frozen. */
typedef struct bp_str {
  const char* data; /* [size], may be NULL where size is 0 */
  size_t size;      /* bytes */
} bp_str;

/* Filled by the failing side: a NUL-terminated UTF-8 sentence that says what, where and what to do.
 * 512 bytes, owned by the caller. Frozen. */
typedef struct bp_error {
  int32_t status;    /* what the function returns too */
  char message[508]; /* the sentence */
} bp_error;

/* One configuration value or request parameter. Frozen. */
#define BP_TYPE_INT 1u    /* i */
#define BP_TYPE_FLOAT 2u  /* d (i is its truncation) */
#define BP_TYPE_STRING 3u /* s */
#define BP_TYPE_BOOL 4u   /* i: 0 or 1 */
typedef struct bp_param {
  bp_str key;    /* dotted: "kv.dtype" */
  uint32_t type; /* BP_TYPE_* */
  uint32_t reserved;
  int64_t i; /* by type, as above */
  double d;  /* likewise */
  bp_str s;  /* likewise */
} bp_param;

/* Parameters sorted by key (byte order), validated and filled with defaults by the host from the
 * plugin's manifest, so that a plugin needs no parser. Growable. */
typedef struct bp_params {
  uint32_t struct_size;
  uint32_t n_params;
  const bp_param* params; /* [n_params] */
} bp_params;

/* What a library says about itself; static storage. Growable. */
typedef struct bp_plugin {
  uint32_t struct_size;
  uint32_t abi_major; /* BP_ABI_MAJOR of the build */
  uint32_t abi_minor; /* BP_ABI_MINOR of the build */
  uint32_t n_kinds;
  const char* id;           /* "cpu"; lower-case letters, digits, '-', '_', '.'; as in the manifest */
  const char* version;      /* "1.2.3"; as in the manifest */
  const char* const* kinds; /* [n_kinds] factory ids that get_factory knows; as in the manifest */

  /* The factory of a kind: a growable struct of functions defined by the header of that kind, static
   * storage; NULL for an unknown id. Pure. [any-thread] */
  const void* (*get_factory)(const char* factory_id);
} bp_plugin;

/* The one exported symbol. Pure: no allocation, thread, device call or getenv. Returns NULL when the
 * host's major is not the plugin's. [any-thread] */
#if defined(__GNUC__)
#define BP_EXPORT __attribute__((visibility("default")))
#else
#define BP_EXPORT
#endif
BP_EXPORT const bp_plugin* bp_plugin_query(uint32_t host_abi_major);
typedef const bp_plugin* (*bp_plugin_query_fn)(uint32_t host_abi_major);

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_PLUGIN_H_ */

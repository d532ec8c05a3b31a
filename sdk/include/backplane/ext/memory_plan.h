/* backplane/ext/memory_plan.h: backend extension "bp.memory-plan/1", what a program would take
 * before it is compiled.
 *
 *  1. A backend may offer several ways of keeping weights ("modes"), as its configuration names
 * them.
 *  2. plan has no side effect: it writes no file and takes no memory that it does not give back.
 *  3. It speaks of the moment: memory that others take afterwards is not there.
 */
#ifndef BACKPLANE_EXT_MEMORY_PLAN_H_
#define BACKPLANE_EXT_MEMORY_PLAN_H_

#include "backplane/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_MEMORY_PLAN_ID "bp.memory-plan/1"

/* One way of keeping a program's weights. Frozen. */
typedef struct bp_weights_mode {
  char name[16];         /* as in the backend's configuration, with a 0 at its end */
  uint64_t own_bytes;    /* memory that the backend allocates for weights */
  uint64_t mapped_bytes; /* of files that every step reads */
  uint64_t
      resident_bytes; /* of mapped_bytes that would stay in memory; each step reads the others */
} bp_weights_mode;

/* Filled by plan. Growable. */
typedef struct bp_memory_plan {
  uint32_t struct_size;
  uint32_t n_modes; /* entries of modes written */
  uint32_t chosen;  /* index into modes, by the backend's configuration */
  uint32_t reserved;
  uint64_t available_bytes;    /* that could be allocated now */
  uint64_t kv_bytes_per_token; /* of the types that the options ask for */
  bp_weights_mode modes[4];    /* [n_modes] */
} bp_memory_plan;

/* The extension. Growable. */
typedef struct bp_memory_planner {
  uint32_t struct_size;
  uint32_t reserved;
  /* The options as compile would get them. BP_UNSUPPORTED for a program that check refuses.
   * [control] */
  bp_status (*plan)(bp_backend* backend, const bp_program* program,
                    const bp_compile_options* options, bp_memory_plan* out, bp_error* error);
} bp_memory_planner;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_EXT_MEMORY_PLAN_H_ */

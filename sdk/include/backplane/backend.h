/* backplane/backend.h: "bp.backend/1", which compiles programs and executes them on batches.
 *
 *  1. Order of calls: create, check, compile, memory, kv_allocate, warm_up, (submit, collect)*, then
 *     destroy_executable and destroy. Each executable has its own KV memory.
 *  2. The backend owns KV memory and its layout; the host owns block ids 1..n_blocks-1 (0 is the null
 *     block, whose memory the backend also allocates).
 *  3. A synchronous backend does its work in submit. No more than bp_memory_info.max_in_flight steps
 *     of an executable are in flight, from submit to collect: a submit beyond that, be it the second
 *     to a synchronous backend, gives INVALID_ARGUMENT and changes nothing. Steps are collected in the
 *     order of submit.
 *  4. A NaN is data, never an error. A step that fails leaves all KV and state outside its own writes
 *     intact.
 *  5. Results must not depend on what else is in the batch beyond the bounds of the op specs.
 *  6. Where the program has state slots, their entries are one more group after the KV groups, in
 *     memory and in kv_allocate: a "block" of it is one entry of all state slots together. Entry 0
 *     is never written and never read as memory.
 */
#ifndef BACKPLANE_BACKEND_H_
#define BACKPLANE_BACKEND_H_

#include "backplane/batch.h"
#include "backplane/host.h"
#include "backplane/op_kernels.h"
#include "backplane/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_BACKEND_ID "bp.backend/1"

typedef struct bp_backend bp_backend;       /* opaque */
typedef struct bp_executable bp_executable; /* opaque */

/* Receives every obstacle that check finds. op is an index into the program's ops, or BP_NONE for the
 * program as a whole. Growable. */
typedef struct bp_check_report {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  void (*obstacle)(void* user, uint32_t op, bp_str sentence); /* inside check only */
} bp_check_report;

/* Bits of bp_compile_options.required. A backend refuses BP_COMPILE_OVERRIDES where it would not run
 * the kernels of each override. */
#define BP_COMPILE_OVERRIDES 1u /* overrides */

/* What the executable is for. Growable. */
typedef struct bp_compile_options {
  uint32_t struct_size;
  uint32_t n_threads; /* workers of a step; 0: the backend's choice */
  uint64_t required;  /* BP_COMPILE_* */
  uint32_t max_context;     /* tokens of the longest sequence */
  uint32_t max_step_tokens; /* n_tokens of a batch */
  uint32_t max_sequences;   /* n_seqs of a batch */
  uint32_t max_output_rows; /* sum of n_rows of a batch */
  bp_dtype k_dtype;         /* of the KV cache; BP_DTYPE_NONE: the backend's choice */
  bp_dtype v_dtype;         /* likewise */
  uint32_t block_size; /* tokens; proposed, 0: the backend's choice; memory tells the answer */
  uint32_t reserved;
  const char* content_key;  /* identifies the weights, for caches of prepared weights; or NULL */
  const char* cache_folder; /* absolute, writable; or NULL */
  const bp_progress* progress; /* or NULL */
  uint32_t n_overrides;
  uint32_t reserved2;
  const bp_override* const* overrides; /* [n_overrides] kernels for ops of the program, no op twice */
} bp_compile_options;

/* Filled by memory. Growable. */
typedef struct bp_memory_info {
  uint32_t struct_size;
  uint32_t block_size;      /* tokens of a KV block */
  uint64_t weights_bytes;   /* held by the backend beyond the mapped file */
  uint64_t workspace_bytes; /* for the largest step */
  uint64_t available_bytes; /* that kv_allocate could take now */
  uint32_t n_groups;        /* entries of block_bytes written (convention 6); at most 8 */
  uint32_t max_in_flight;   /* steps submitted and not collected; at least 1 */
  uint64_t block_bytes[8];  /* of one block of a KV group, all its slots together */
  bp_dtype k_dtype;         /* chosen */
  bp_dtype v_dtype;         /* likewise */
  uint32_t is_dedicated;    /* 1: nothing but KV is to come into the available bytes, as on a card
                             * of its own; 0: they are the process's and the system's too */
  uint32_t reserved;
  uint64_t packed_block_bytes[8]; /* what a step reads of a full block where the backend packs such;
                                   * 0: block_bytes */
} bp_memory_info;

/* The factory. Growable. All functions but get_extension are required. */
typedef struct bp_backend_factory {
  uint32_t struct_size;
  uint32_t reserved;

  /* [any-thread] config and host as in plugin.h and host.h; host outlives the backend. */
  bp_status (*create)(const bp_host* host, const bp_params* config, bp_backend** out,
                      bp_error* error);
  void (*destroy)(bp_backend* backend); /* [control] after its executables */

  /* Reports every op that cannot be compiled, with a sentence each; no side effect. BP_OK when there
   * is no obstacle, else BP_UNSUPPORTED. [control] */
  bp_status (*check)(bp_backend* backend, const bp_program* program, const bp_check_report* report,
                     bp_error* error);

  /* The program outlives the executable. [control] */
  bp_status (*compile)(bp_backend* backend, const bp_program* program,
                       const bp_compile_options* options, bp_executable** out, bp_error* error);
  void (*destroy_executable)(bp_executable* executable); /* [control] nothing in flight, or DEVICE_LOST */

  bp_status (*memory)(bp_executable* executable, bp_memory_info* out, bp_error* error); /* [control] */

  /* n_blocks[g] for each group of convention 6, block 0 included; once. Contents are undefined.
   * [control] */
  bp_status (*kv_allocate)(bp_executable* executable, const uint32_t* n_blocks, uint32_t n_groups,
                           bp_error* error);

  /* Everything that would make the first steps slower than later ones. progress may be NULL.
   * [control] */
  bp_status (*warm_up)(bp_executable* executable, const bp_progress* progress, bp_error* error);

  /* Starts a step; ticket names it to collect. INVALID_ARGUMENT for a batch beyond the limits of
   * compile or with a block id or state entry out of range. [step] */
  bp_status (*submit)(bp_executable* executable, const bp_batch* batch, uint64_t* ticket,
                      bp_error* error);
  /* Waits for a step; then outputs and seq_status are complete. [step] */
  bp_status (*collect)(bp_executable* executable, uint64_t ticket, bp_error* error);

  /* Extensions of the backend, valid as long as it; or NULL. Optional. [any-thread] */
  const void* (*get_extension)(bp_backend* backend, const char* extension_id);
} bp_backend_factory;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_BACKEND_H_ */

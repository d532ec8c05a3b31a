/* backplane/scheduler.h: "bp.scheduler/1", who runs how many tokens in the next step.
 *
 *  1. A scheduler is deterministic in its configuration and the sequence of snapshots: time comes from
 *     the snapshot only; no clock, no random numbers, no thread.
 *  2. Snapshots and decisions are structs of columns; index i is the same sequence in all of them.
 *     Sequences stand in order of arrival. Columns may be added at the end of the structs.
 *  3. A sequence has n_tokens known tokens, of which n_computed are in the KV cache; the step may
 *     compute up to n_tokens - n_computed of them. Computing the last one yields a new token.
 *  4. The host checks every decision (budget, rows, blocks); an invalid one is counted and replaced by
 *     first come, first served for that step.
 */
#ifndef BACKPLANE_SCHEDULER_H_
#define BACKPLANE_SCHEDULER_H_

#include "backplane/host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_SCHEDULER_ID "bp.scheduler/1"

#define BP_SEQ_WAITING 0u /* holds no blocks */
#define BP_SEQ_RUNNING 1u /* holds blocks */

#define BP_KEEP 0u              /* no preemption */
#define BP_PREEMPT_RECOMPUTE 1u /* blocks are freed, the sequence waits and is computed again, but
                                   for what the host keeps of it elsewhere, which n_cached counts */

/* All that a scheduler knows. Growable. */
typedef struct bp_snapshot {
  uint32_t struct_size;
  uint32_t n_seqs;         /* entries of each column */
  uint64_t required;       /* no bits defined */
  uint64_t step;           /* counts from 0 */
  uint64_t now_us;         /* monotonic, of the host's choice */
  uint64_t last_step_us;   /* measured time of the last step, 0 before the first */
  uint32_t last_step_tokens; /* computed in the last step */
  uint32_t max_step_tokens; /* budget of this step */
  uint32_t max_sequences;   /* that may run in a step */
  uint32_t block_size;      /* tokens of a block */
  uint32_t free_blocks;     /* that can be had now, cached ones without users included */
  uint32_t n_blocks;        /* of the KV cache, used ones included */
  /* columns, [n_seqs] each */
  const uint64_t* id;
  const uint32_t* state; /* BP_SEQ_* */
  const int32_t* priority; /* higher first */
  const uint32_t* tenant;
  const uint64_t* arrival_us;
  const uint64_t* deadline_us; /* 0: none */
  const uint32_t* n_prompt;
  const uint32_t* n_tokens;    /* prompt and generated */
  const uint32_t* n_computed;  /* for a waiting sequence 0 */
  const uint32_t* n_cached;    /* of a waiting sequence: leading tokens found in the prefix cache, or
                                  kept in host memory when it was preempted */
  const uint32_t* n_held;      /* blocks held; of a waiting sequence: leading ones of n_cached that it
                                  need not ask for, since others hold them */
  const uint64_t* last_run_step; /* UINT64_MAX: never */
} bp_snapshot;

/* The host provides zeroed columns of n_seqs entries. Growable. */
typedef struct bp_decision {
  uint32_t struct_size;
  uint32_t n_seqs;    /* of the snapshot */
  uint32_t* n_tokens; /* tokens to compute in this step, beyond n_cached for a waiting sequence */
  uint32_t* n_draft;  /* draft tokens to verify; 0 */
  uint32_t* preempt;  /* BP_KEEP or BP_PREEMPT_*; such a sequence computes nothing */
} bp_decision;

typedef struct bp_scheduler bp_scheduler; /* opaque */

/* The factory. Growable. All functions are required. */
typedef struct bp_scheduler_factory {
  uint32_t struct_size;
  uint32_t reserved;
  bp_status (*create)(const bp_host* host, const bp_params* config, bp_scheduler** out,
                      bp_error* error);         /* [control] */
  void (*destroy)(bp_scheduler* scheduler);     /* [control] */
  bp_status (*schedule)(bp_scheduler* scheduler, const bp_snapshot* snapshot, bp_decision* decision,
                        bp_error* error);       /* [step] */
} bp_scheduler_factory;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_SCHEDULER_H_ */

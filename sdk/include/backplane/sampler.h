/* backplane/sampler.h: "bp.sampler/1", stages that turn a row of logits into fewer candidates.
 *
 *  1. A plugin has one or more named stages; the configuration or the request orders the chain. The
 *     manifest names the stages and the request fields each one reads, with type, range and default.
 *  2. A row starts dense: logits[n_vocab]. A stage with BP_STAGE_TRUNCATES that is given a dense row
 *     may write `candidates` and n_candidates and so make the row sparse (n_candidates at least 1);
 *     a later stage then sees candidates only. A stage without BP_STAGE_DENSE given a dense row gets
 *     one that the host has made sparse (all allowed ids).
 *  3. State per sequence and stage: made from the request's parameters, told every token, rebuilt by
 *     accept after preemption. Equal histories must give equal states.
 *  4. Random numbers come from the host and depend on (seed, position, stage, draw) alone. The host
 *     takes logprobs before the chain, and makes the final draw from softmax(candidates) after it. A
 *     stage that is told of that draw (draw_scale) may make it: it leaves the token drawn alone.
 */
#ifndef BACKPLANE_SAMPLER_H_
#define BACKPLANE_SAMPLER_H_

#include "backplane/host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_SAMPLER_ID "bp.sampler/1"

#define BP_STAGE_DENSE 1u     /* accepts a dense row */
#define BP_STAGE_SPARSE 2u    /* accepts candidates */
#define BP_STAGE_TRUNCATES 4u /* may drop candidates */

/* What the library says of a stage. Frozen. */
typedef struct bp_stage_info {
  const char* name; /* "top_k" */
  uint32_t flags;   /* BP_STAGE_* */
  uint32_t reserved;
} bp_stage_info;

/* A token that may still be drawn. Frozen. */
typedef struct bp_candidate {
  int32_t id;  /* of the token */
  float logit; /* before softmax */
} bp_candidate;

#define BP_ORDER_NONE 0u       /* none promised */
#define BP_ORDER_DESCENDING 1u /* by logit, ties by ascending id */

/* One row in work. A stage writes to what logits and candidates point to, n_candidates and order, and
 * may set logits to NULL as it makes the row sparse; other members are the host's. Growable. */
typedef struct bp_sample_row {
  uint32_t struct_size;
  uint32_t n_vocab;
  uint64_t position;       /* of the token to be drawn */
  float* logits;           /* [n_vocab], in place; NULL once the row is sparse */
  const uint32_t* allowed; /* bit i of word i/32: id i may be drawn; NULL: all. Forbidden ids have
                              logit -inf in a dense row */
  bp_candidate* candidates; /* room for n_vocab */
  uint32_t n_candidates;    /* 0: the row is dense */
  uint32_t order;           /* BP_ORDER_* of candidates; a stage that disturbs it says so */
  void* host; /* passed back to uniform */
  /* A uniform number in [0, 1); draw counts from 0. */
  double (*uniform)(void* host, uint32_t draw);
  const int32_t* greatest; /* the lowest id of a dense row's greatest logit, which is above -inf;
                              NULL: not known */
  float draw_scale; /* above 0: what follows this stage is the draw alone, of the candidates that are
                       at least the greatest plus draw_floor, from softmax(draw_scale * logits). The
                       stage may then draw itself, by uniform, and leave that one candidate. 0: that
                       is not known */
  float draw_floor; /* at most 0; -inf: all that the stage leaves may be drawn */
} bp_sample_row;

#define BP_EFFECT_OTHER 0u /* only apply knows */
#define BP_EFFECT_TOP_K 1u /* the `count` best candidates stay, in descending order; -inf never does */
#define BP_EFFECT_FLOOR 2u /* those stay, in order, that are at least the greatest plus `value` <= 0 */
#define BP_EFFECT_SCALE 3u /* distances from the greatest times `value` > 0, the order stays */

/* What apply does where that depends on the row's logits alone, so that the host or a backend
 * (backplane/ext/device_sampling.h) may do it in its place. The same for the state's whole life.
 * Growable. */
typedef struct bp_stage_effect {
  uint32_t struct_size;
  uint32_t kind;  /* BP_EFFECT_* */
  uint32_t count; /* of BP_EFFECT_TOP_K */
  float value;    /* of BP_EFFECT_FLOOR and BP_EFFECT_SCALE */
} bp_stage_effect;

typedef struct bp_sampler bp_sampler;         /* opaque */
typedef struct bp_stage_state bp_stage_state; /* opaque */

#define BP_TOKENS_PROMPT 0u    /* of the request */
#define BP_TOKENS_GENERATED 1u /* drawn */

/* The factory. Growable. All functions but effect are required. */
typedef struct bp_sampler_factory {
  uint32_t struct_size;
  uint32_t n_stages;
  const bp_stage_info* stages; /* [n_stages] static; as in the manifest */

  bp_status (*create)(const bp_host* host, const bp_params* config, bp_sampler** out,
                      bp_error* error);       /* [control] */
  void (*destroy)(bp_sampler* sampler);       /* [control] after its states */

  /* State of one stage for one sequence, from the request fields that the manifest names. BP_OK with
   * *out NULL: the stage has nothing to do for this request and is left out. [any-thread] */
  bp_status (*state_create)(bp_sampler* sampler, uint32_t stage, const bp_params* fields,
                            uint32_t n_vocab, bp_stage_state** out, bp_error* error);
  bp_status (*state_clone)(const bp_stage_state* state, bp_stage_state** out, bp_error* error);
  void (*state_destroy)(bp_stage_state* state); /* [any-thread] */

  /* Tokens appended to the sequence, and the last n taken back. origin: BP_TOKENS_*. One thread at a
   * time for a state. */
  bp_status (*accept)(bp_stage_state* state, const int32_t* tokens, uint32_t n, uint32_t origin,
                      bp_error* error);
  bp_status (*rollback)(bp_stage_state* state, uint32_t n, bp_error* error);

  /* One thread at a time for a state; different states at once. */
  bp_status (*apply)(bp_stage_state* state, bp_sample_row* row, bp_error* error);

  /* Fills *out, which comes with BP_EFFECT_OTHER. Optional. [any-thread] */
  void (*effect)(const bp_stage_state* state, bp_stage_effect* out);
} bp_sampler_factory;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_SAMPLER_H_ */

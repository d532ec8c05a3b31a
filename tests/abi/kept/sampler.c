/* The stage "only_last" keeps the candidate or token with the highest id. */
#include <stdlib.h>

#include "backplane/sampler.h"
#include "kept.h"

struct bp_sampler {
  char unused;
};
struct bp_stage_state {
  uint32_t n_vocab;
};

static bp_status create(const bp_host* host, const bp_params* config, bp_sampler** out,
                        bp_error* error) {
  (void)host, (void)config;
  bp_sampler* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  *out = made;
  return BP_OK;
}

static void destroy(bp_sampler* sampler) {
  free(sampler);
}

static bp_status make(uint32_t n_vocab, bp_stage_state** out, bp_error* error) {
  bp_stage_state* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  made->n_vocab = n_vocab;
  *out = made;
  return BP_OK;
}

static bp_status state_create(bp_sampler* sampler, uint32_t stage, const bp_params* fields,
                              uint32_t n_vocab, bp_stage_state** out, bp_error* error) {
  (void)sampler, (void)fields;
  if (stage != 0) return fail(BP_INVALID_ARGUMENT, "there is one stage", error);
  return make(n_vocab, out, error);
}

static bp_status state_clone(const bp_stage_state* state, bp_stage_state** out, bp_error* error) {
  return make(state->n_vocab, out, error);
}

static void state_destroy(bp_stage_state* state) {
  free(state);
}

static bp_status accept(bp_stage_state* state, const int32_t* tokens, uint32_t n, uint32_t origin,
                        bp_error* error) {
  (void)state, (void)tokens, (void)n, (void)origin, (void)error;
  return BP_OK;
}

static bp_status rollback(bp_stage_state* state, uint32_t n, bp_error* error) {
  (void)state, (void)n, (void)error;
  return BP_OK;
}

static bp_status apply(bp_stage_state* state, bp_sample_row* row, bp_error* error) {
  (void)error;
  const int32_t last = (int32_t)state->n_vocab - 1;
  row->candidates[0].id = last;
  row->candidates[0].logit = row->logits == NULL ? 0 : row->logits[last];
  row->n_candidates = 1;
  return BP_OK;
}

static const bp_stage_info stages[] = {
    {"only_last", BP_STAGE_DENSE | BP_STAGE_SPARSE | BP_STAGE_TRUNCATES, 0}};
static const bp_sampler_factory factory = {
    sizeof factory, 1,      stages,   create, destroy, state_create, state_clone,
    state_destroy,  accept, rollback, apply,  NULL};
KEPT_PLUGIN("kept-sampler", BP_SAMPLER_ID, factory)

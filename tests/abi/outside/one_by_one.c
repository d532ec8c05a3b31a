/* One sequence at a time, in order of arrival: a scheduler in plain C11. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backplane/scheduler.h"

struct bp_scheduler {
  uint32_t chunk; /* tokens */
};

static bp_status fail(bp_status status, const char* sentence, bp_error* error) {
  if (error != NULL) {
    error->status = status;
    snprintf(error->message, sizeof error->message, "%s", sentence);
  }
  return status;
}

static int64_t int_param(const bp_params* params, const char* key, int64_t fallback) {
  for (uint32_t i = 0; params != NULL && i < params->n_params; ++i) {
    const bp_param* p = &params->params[i];
    if (p->key.size == strlen(key) && memcmp(p->key.data, key, p->key.size) == 0) return p->i;
  }
  return fallback;
}

static bp_status create(const bp_host* host, const bp_params* config, bp_scheduler** out,
                        bp_error* error) {
  (void)host;
  bp_scheduler* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory for a scheduler", error);
  made->chunk = (uint32_t)int_param(config, "chunk", 64);
  *out = made;
  return BP_OK;
}

static void destroy(bp_scheduler* scheduler) { free(scheduler); }

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* The first sequence that has work: the one that runs, else the oldest. */
static uint32_t choose(const bp_snapshot* s) {
  for (uint32_t i = 0; i < s->n_seqs; ++i) {
    if (s->state[i] == BP_SEQ_RUNNING) return i;
  }
  return 0;
}

static bp_status schedule(bp_scheduler* scheduler, const bp_snapshot* snapshot,
                          bp_decision* decision, bp_error* error) {
  bp_snapshot s;
  memset(&s, 0, sizeof s);
  memcpy(&s, snapshot, min_u32(snapshot->struct_size, sizeof s));
  if (s.required != 0) return fail(BP_UNSUPPORTED, "the snapshot requires a new feature", error);
  if (s.n_seqs == 0) return BP_OK;
  const uint32_t i = choose(&s);
  const uint32_t computed = s.state[i] == BP_SEQ_RUNNING ? s.n_computed[i] : s.n_cached[i];
  const uint32_t room = (s.n_held[i] + s.free_blocks) * s.block_size - computed;
  const uint32_t budget = min_u32(scheduler->chunk, s.max_step_tokens);
  decision->n_tokens[i] = min_u32(min_u32(s.n_tokens[i] - computed, room), budget);
  return BP_OK;
}

static const bp_scheduler_factory factory = {sizeof factory, 0, create, destroy, schedule};

static const void* get_factory(const char* id) {
  return id != NULL && strcmp(id, BP_SCHEDULER_ID) == 0 ? &factory : NULL;
}

static const char* const kinds[] = {BP_SCHEDULER_ID};
static const bp_plugin plugin = {sizeof plugin, BP_ABI_MAJOR, BP_ABI_MINOR, 1,
                                 "one-by-one",  "1.0.0",      kinds,        get_factory};

const bp_plugin* bp_plugin_query(uint32_t host_abi_major) {
  return host_abi_major == BP_ABI_MAJOR ? &plugin : NULL;
}

/* Every sequence runs one token. */
#include <stdlib.h>

#include "backplane/scheduler.h"
#include "kept.h"

struct bp_scheduler {
  char unused;
};

static bp_status create(const bp_host* host, const bp_params* config, bp_scheduler** out,
                        bp_error* error) {
  (void)host, (void)config;
  bp_scheduler* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  *out = made;
  return BP_OK;
}

static void destroy(bp_scheduler* scheduler) {
  free(scheduler);
}

static bp_status schedule(bp_scheduler* scheduler, const bp_snapshot* snapshot,
                          bp_decision* decision, bp_error* error) {
  (void)scheduler;
  bp_snapshot s;
  READ(s, snapshot);
  if (s.required != 0) return fail(BP_UNSUPPORTED, "the snapshot requires a new feature", error);
  for (uint32_t i = 0; i < s.n_seqs; ++i) decision->n_tokens[i] = 1;
  return BP_OK;
}

static const bp_scheduler_factory factory = {sizeof factory, 0, create, destroy, schedule};
KEPT_PLUGIN("kept-scheduler", BP_SCHEDULER_ID, factory)

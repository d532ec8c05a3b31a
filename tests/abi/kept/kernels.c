/* activate: 1 wherever x is above 0, whatever the activation. */
#include <stdlib.h>

#include "backplane/op_kernels.h"
#include "backplane/ops.h"
#include "kept.h"

struct bp_kernel_set {
  char unused;
};
struct bp_kernel {
  uint64_t width;
};

static bp_status create(const bp_host* host, const char* op, const bp_params* config,
                        bp_kernel_set** out, bp_error* error) {
  (void)host, (void)config;
  if (strcmp(op, BP_OP_ACTIVATE) != 0) return fail(BP_UNSUPPORTED, "only activate is known", error);
  bp_kernel_set* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  *out = made;
  return BP_OK;
}

static void destroy(bp_kernel_set* set) {
  free(set);
}

static int32_t accepts(bp_kernel_set* set, const bp_kernel_place* place) {
  (void)set;
  return place->required == 0;
}

static bp_status prepare(bp_kernel_set* set, const bp_kernel_place* place, bp_kernel** out,
                         bp_error* error) {
  (void)set;
  bp_kernel* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  made->width = place->n_in;
  *out = made;
  return BP_OK;
}

static void release(bp_kernel* kernel) {
  free(kernel);
}

static bp_status run(const bp_kernel* kernel, const bp_kernel_call* call, uint32_t part,
                     uint32_t n_parts, bp_error* error) {
  if (call->required != 0) return fail(BP_UNSUPPORTED, "the call requires a new feature", error);
  for (uint64_t r = part; r < call->n_rows; r += n_parts) {
    const float* x = call->x + r * call->x_stride;
    float* y = call->y + r * call->y_stride;
    for (uint64_t i = 0; i < kernel->width; ++i) y[i] = x[i] > 0 ? 1.0f : 0.0f;
  }
  return BP_OK;
}

static const bp_op_kernels_factory factory = {sizeof factory, 0,       create, destroy, accepts,
                                              prepare,        release, NULL,   run};
KEPT_PLUGIN("kept-kernels", BP_OP_KERNELS_ID, factory)

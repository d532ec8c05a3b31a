/* backplane/op_kernels.h: "bp.op-kernels/1", kernels for single ops of another plugin's backend.
 *
 *  1. The configuration names an op and a plugin (`override: {linear: mine}`). The host makes a set of
 *     kernels and hands it to the base backend in compile, which runs it wherever the program computes
 *     that op: inside composites too, which the base takes apart for it.
 *  2. A place is one such computation: one weight of a qkv, one norm, one activation. A set may accept
 *     some places and not others, by attributes, types and sizes; the others are the base's own, as
 *     are biases and all else that stands around a place.
 *  3. Base and kernels share host memory. An op that touches the KV cache or state has no place.
 *  4. y must lie within the bounds of the op's spec, and row r of y depend on row r of x alone.
 *  5. The base cuts a place into parts that run at once on its threads; all of y is written when all
 *     parts have returned.
 */
#ifndef BACKPLANE_OP_KERNELS_H_
#define BACKPLANE_OP_KERNELS_H_

#include "backplane/host.h"
#include "backplane/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_OP_KERNELS_ID "bp.op-kernels/1"

/* Ops with places; their attributes and specs are those of ops.h:
 * "linear"   y = x w^T; weights w [n_out, n_in]; no attributes. In linear, matmul, qkv, gated_mlp and
 *            lm_head.
 * "norm"     y = normalise(x) * (weight + weight_offset) + bias; weights [weight], [bias], each
 *            [n_in] or [group]; bp_attr_norm. In norm, normalize, and qkv for its heads. n_out = n_in.
 * "activate" y = activation(x); bp_attr_activate. In activate, linear and gated_mlp. n_out = n_in. */

typedef struct bp_kernel_set bp_kernel_set; /* opaque: what one entry of `override` made */
typedef struct bp_kernel bp_kernel;         /* opaque: a set prepared for one place */

/* Where a kernel would run. Growable. */
typedef struct bp_kernel_place {
  uint32_t struct_size;
  uint32_t n_weights;
  uint64_t required;      /* no bits defined */
  const char* op;         /* "linear" */
  const char* name;       /* of the program's op, for messages */
  const void* attributes; /* NULL where the op has none */
  const bp_weight* const* weights; /* [n_weights], NULL for an absent one; their `data` is readable
                                      until release */
  uint64_t n_in;     /* columns of x */
  uint64_t n_out;    /* columns of y */
  uint64_t max_rows; /* of a call */
} bp_kernel_place;

/* One call. Growable. */
typedef struct bp_kernel_call {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t required; /* no bits defined */
  uint64_t n_rows;
  uint64_t x_stride; /* floats from a row to the next */
  uint64_t y_stride; /* likewise */
  const float* x; /* [n_rows, n_in]; shares no memory with y */
  float* y;       /* [n_rows, n_out]; what lies between its rows is left alone */
  void* scratch;  /* of this part: scratch_bytes, aligned to 64; content undefined; or NULL */
} bp_kernel_call;

/* The factory. Growable. All functions but scratch_bytes are required. */
typedef struct bp_op_kernels_factory {
  uint32_t struct_size;
  uint32_t reserved;

  /* A set for one op; BP_UNSUPPORTED for an op that the plugin has no kernels for. config and host as
   * in plugin.h and host.h; host outlives the set. [any-thread] */
  bp_status (*create)(const bp_host* host, const char* op, const bp_params* config,
                      bp_kernel_set** out, bp_error* error);
  void (*destroy)(bp_kernel_set* set); /* [control] after its kernels */

  /* 1: the set computes this place, 0: it does not. No side effect. [control] */
  int32_t (*accepts)(bp_kernel_set* set, const bp_kernel_place* place);

  /* Of an accepted place, which is valid during the call; the program's memory until release. What
   * may fail belongs here rather than in run. [control] */
  bp_status (*prepare)(bp_kernel_set* set, const bp_kernel_place* place, bp_kernel** out,
                       bp_error* error);
  void (*release)(bp_kernel* kernel); /* [control] nothing runs */

  /* Bytes of scratch that each part needs for calls of up to n_rows. Optional: none. [control] */
  uint64_t (*scratch_bytes)(const bp_kernel* kernel, uint64_t n_rows);

  /* Part `part` of `n_parts`; how the work is cut is the kernel's affair, and a part may have none.
   * An error fails the step. Different parts, and kernels, at once. [any-thread] */
  bp_status (*run)(const bp_kernel* kernel, const bp_kernel_call* call, uint32_t part,
                   uint32_t n_parts, bp_error* error);
} bp_op_kernels_factory;

/* An entry of `override`, on its way to a backend's compile. Growable. */
typedef struct bp_override {
  uint32_t struct_size;
  uint32_t reserved;
  const char* op;                       /* "linear" */
  const char* plugin;                   /* id, for messages */
  const bp_op_kernels_factory* factory; /* static storage, complete; may be of another minor */
  bp_kernel_set* set;                   /* outlives the executable */
} bp_override;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_OP_KERNELS_H_ */

/* backplane/program.h: a model as a static program.
 *
 *  1. A program is a list of ops (ops.h) in execution order over values and weights. An op reads values
 *     written by earlier ops or program inputs; every value is written once.
 *  2. A value is a matrix [rows, width]: rows is the number of tokens of the batch, or the number of
 *     rows that one program output asks for. Values are float32 in meaning; a backend may keep less
 *     precision within the error bounds of the op specs.
 *  3. State is explicit: ops that touch the KV cache name a KV slot. Nothing follows from op order or
 *     names except that ops run as if one after the other.
 *  4. Everything a program points to lives until the executables compiled from it are destroyed, and
 *     so does the `data` of weight parts, unless the backend has released it.
 */
#ifndef BACKPLANE_PROGRAM_H_
#define BACKPLANE_PROGRAM_H_

#include "backplane/dtype.h"
#include "backplane/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who decides the number of rows of a value. */
#define BP_ROWS_TOKENS 0u /* all tokens of the batch */
#define BP_ROWS_OUTPUT 1u /* the rows asked for by the program output `output` */

/* A matrix that ops read and write. Frozen. */
typedef struct bp_value {
  uint32_t rows;   /* BP_ROWS_* */
  uint32_t output; /* program output index where rows is BP_ROWS_OUTPUT, else 0 */
  bp_dtype dtype;  /* F32, or I32 for token ids (width 1) */
  uint32_t reserved;
  uint64_t width; /* columns */
} bp_value;

/* Roles of weight parts. */
#define BP_PART_DATA 0u   /* the values, or packed values with their scales (block types) */
#define BP_PART_SCALES 1u /* separate scales */
#define BP_PART_ZEROS 2u  /* separate zero points */
#define BP_PART_ORDER 3u  /* permutation of input channels */

/* One tensor of a weight. Frozen. */
typedef struct bp_weight_part {
  uint32_t role; /* BP_PART_* */
  bp_dtype dtype; /* of its values */
  uint32_t n_dims; /* entries of dims */
  uint32_t file;            /* index for messages and cache keys, BP_NONE when made by the core */
  uint64_t dims[4];         /* outermost first: [out, in] */
  uint64_t row_stride_bytes; /* from a row (innermost dimension) to the next */
  uint64_t file_offset;      /* of data, where it lies in a file */
  uint64_t n_bytes;          /* of data */
  const void* data; /* aligned to at least 16 bytes where the file allows; see convention 4 */
} bp_weight_part;

/* A tensor, or several that make one. Growable. */
typedef struct bp_weight {
  uint32_t struct_size;
  uint32_t n_parts;
  uint64_t required; /* no bits defined */
  const char* name;  /* as in the file, for messages */
  const bp_weight_part* parts; /* [n_parts], each role at most once */
} bp_weight;

/* Growable. Indices point into the program's tables; BP_NONE stands for an absent optional one. */
typedef struct bp_op {
  uint32_t struct_size;
  uint32_t version;    /* lowest op version that expresses the non-default attributes */
  uint64_t required;   /* no bits defined */
  const char* kind;    /* BP_OP_*, or a third party's "com.vendor.noun/1" */
  const char* name;    /* "layers.3.attention", for messages */
  uint32_t n_inputs, n_outputs, n_weights, reserved;
  const uint32_t* inputs;  /* value indices, in the order of ops.h */
  const uint32_t* outputs; /* value indices */
  const uint32_t* weights; /* weight indices */
  const void* attributes;  /* the struct of that kind in ops.h, or NULL where a kind has none */
} bp_op;

/* What one attention layer keeps in the KV cache for each token. Frozen. */
typedef struct bp_kv_slot {
  uint32_t group; /* index into kv_groups */
  uint32_t n_kv_heads; /* k holds n_kv_heads * k_head_dim floats */
  uint32_t k_head_dim; /* columns of k of a head */
  uint32_t v_head_dim; /* columns of v of a head */
} bp_kv_slot;

/* Slots of one group share block tables. Frozen. */
typedef struct bp_kv_group {
  uint32_t window; /* tokens that are ever looked at again; 0: all */
  uint32_t reserved;
} bp_kv_group;

/* State of a fixed size per sequence, zero at its start. Frozen. */
typedef struct bp_state_slot {
  uint64_t n_floats; /* of one sequence */
} bp_state_slot;

/* The whole model. Growable. */
typedef struct bp_program {
  uint32_t struct_size;
  uint32_t n_values;
  uint64_t required; /* no bits defined */
  uint32_t n_weights, n_ops, n_inputs, n_outputs;
  uint32_t n_kv_slots, n_kv_groups, n_state_slots, reserved;
  const bp_value* values;          /* [n_values] */
  const bp_weight* const* weights; /* [n_weights] */
  const bp_op* const* ops;         /* [n_ops] */
  const uint32_t* inputs;          /* [n_inputs] value indices: token ids, or hidden states */
  const uint32_t* outputs;         /* [n_outputs] value indices: logits, or hidden states */
  const bp_kv_slot* kv_slots;      /* [n_kv_slots] */
  const bp_kv_group* kv_groups;    /* [n_kv_groups] */
  const bp_state_slot* state_slots; /* [n_state_slots] */
} bp_program;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_PROGRAM_H_ */

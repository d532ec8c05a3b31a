/* A backend in plain C11: the primitives only. The core takes composites apart for it, because
 * `check` refuses them. */
#ifndef PLAIN_H_
#define PLAIN_H_

#include "backplane/backend.h"

#define MAX_INPUTS 2
#define MAX_GROUPS 8 /* of bp_memory_info.block_bytes */

/* Rows of float32, without gaps. */
typedef struct matrix {
  float* data;
  uint64_t n_rows;
  uint64_t width;
} matrix;

/* What one KV slot keeps: [n_blocks, block_size, width], width of all its heads. */
typedef struct layer {
  float* k;
  float* v;
  uint64_t k_width, v_width;
} layer;

struct bp_backend {
  bp_host host;
};

struct bp_executable {
  bp_program program; /* this build's copies of the program's growable structs */
  bp_op* ops;
  bp_weight* weights;
  bp_compile_options options;
  uint32_t block_size;
  uint32_t n_blocks[MAX_GROUPS];
  int is_allocated;
  layer* layers;         /* [n_kv_slots] */
  uint32_t* buffer_of;   /* [n_values] index into buffers; token ids have BP_NONE */
  float** buffers;       /* [n_values], shared by values that do not live at once */
  uint64_t* buffer_size; /* [n_values] floats */
  float* row;            /* a decoded weight row, or the scores of a head */
  float* vector;         /* a decoded weight of one dimension */
  uint32_t* sequence_of; /* [max_step_tokens] */
  uint64_t last_ticket;
  int is_in_flight; /* its step, until it is collected */
};

/* One op of one step. */
typedef struct call {
  bp_executable* executable;
  const bp_batch* batch;
  const bp_op* op;
  matrix inputs[MAX_INPUTS]; /* token ids have no data */
  matrix output;
  const bp_output* asked; /* rows of the program output that the op's output belongs to, or NULL */
} call;

/* What check and the step know of a kind of op. */
typedef struct op_info {
  const char* kind;
  uint32_t n_inputs, n_outputs, n_weights; /* most */
  uint32_t attributes_bytes;               /* 0: the kind has none */
  void (*run)(call* c);
} op_info;

/* ops.c */
const op_info* find_op(const char* kind);       /* NULL for other kinds */
uint64_t row_bytes(bp_dtype dtype, uint64_t n); /* 0 for types that this backend does not read */
uint32_t block_elements(bp_dtype dtype);

/* check.c */
bp_status check_program(const bp_program* program, const bp_check_report* report, bp_error* error);

/* executable.c */
bp_status make_executable(const bp_program* program, const bp_compile_options* options,
                          bp_executable** out, bp_error* error);
void free_executable(bp_executable* e);
bp_status describe_memory(bp_executable* e, bp_memory_info* out, bp_error* error);
bp_status allocate_kv(bp_executable* e, const uint32_t* n_blocks, uint32_t n_groups,
                      bp_error* error);

/* step.c */
bp_status run_step(bp_executable* e, const bp_batch* batch, uint64_t* ticket, bp_error* error);

/* plugin.c */
bp_status fail(bp_error* error, bp_status status, const char* format, ...);
/* min(struct_size, size) bytes of another build's struct over `mine`, which holds the defaults. */
void copy_growable(void* mine, const void* other, uint32_t size);
uint32_t slot(const uint32_t* slots, uint32_t n, uint32_t i); /* BP_NONE beyond n */

#endif

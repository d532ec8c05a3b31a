/* What lives from compile to destroy: copies of the program's structs, buffers for the values of
 * the largest step, and the KV cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

#define DEFAULT_BLOCK_SIZE 16

/* calloc whose n may be a product that does not fit; at least one element. */
static void* zeros(uint64_t n, size_t size) {
  if (n > SIZE_MAX / 2 / size) return NULL;
  return calloc(n == 0 ? 1 : (size_t)n, size);
}

static uint64_t n_rows_of(const bp_executable* e, uint32_t value) {
  return e->program.values[value].rows == BP_ROWS_TOKENS ? e->options.max_step_tokens
                                                         : e->options.max_output_rows;
}

/* The op after which nobody reads each value; n_ops for program outputs. */
static void find_last_uses(const bp_executable* e, uint32_t* last) {
  for (uint32_t i = 0; i < e->program.n_ops; ++i) {
    const bp_op* op = &e->ops[i];
    for (uint32_t k = 0; k < op->n_inputs; ++k) {
      if (op->inputs[k] != BP_NONE) last[op->inputs[k]] = i;
    }
    for (uint32_t k = 0; k < op->n_outputs; ++k) last[op->outputs[k]] = i;
  }
  for (uint32_t i = 0; i < e->program.n_outputs; ++i)
    last[e->program.outputs[i]] = e->program.n_ops;
}

/* Gives each value a buffer that no other value uses while it lives, and each buffer its size. */
static void share_buffers(bp_executable* e, const uint32_t* last, uint8_t* is_taken) {
  memset(e->buffer_of, 0xff, e->program.n_values * sizeof *e->buffer_of);
  for (uint32_t i = 0; i < e->program.n_ops; ++i) {
    for (uint32_t k = 0; k < e->ops[i].n_outputs; ++k) {
      const uint32_t v = e->ops[i].outputs[k];
      uint32_t b = 0;
      while (is_taken[b]) ++b;
      is_taken[b] = 1;
      e->buffer_of[v] = b;
      const uint64_t n = n_rows_of(e, v) * e->program.values[v].width;
      if (n > e->buffer_size[b]) e->buffer_size[b] = n;
    }
    for (uint32_t v = 0; v < e->program.n_values; ++v) {
      if (last[v] == i && e->buffer_of[v] != BP_NONE) is_taken[e->buffer_of[v]] = 0;
    }
  }
}

static bp_status make_buffers(bp_executable* e) {
  const uint32_t n = e->program.n_values;
  uint32_t* last = zeros(n, sizeof *last);
  uint8_t* is_taken = zeros(n + 1u, 1);
  int complete = last != NULL && is_taken != NULL;
  if (complete) {
    find_last_uses(e, last);
    share_buffers(e, last, is_taken);
  }
  free(last);
  free(is_taken);
  for (uint32_t b = 0; complete && b < n; ++b) {
    if (e->buffer_size[b] == 0) continue;
    e->buffers[b] = zeros(e->buffer_size[b], sizeof(float));
    complete = e->buffers[b] != NULL;
  }
  return complete ? BP_OK : BP_OUT_OF_MEMORY;
}

static uint64_t longest_row(const bp_executable* e) {
  uint64_t n = e->options.max_context;
  for (uint32_t i = 0; i < e->program.n_weights; ++i) {
    const bp_weight_part* p = e->weights[i].parts;
    if (p->dims[p->n_dims - 1] > n) n = p->dims[p->n_dims - 1];
  }
  return n;
}

static bp_status fill(bp_executable* e) {
  const bp_program* p = &e->program;
  e->ops = zeros(p->n_ops, sizeof *e->ops);
  e->weights = zeros(p->n_weights, sizeof *e->weights);
  e->layers = zeros(p->n_kv_slots, sizeof *e->layers);
  e->buffer_of = zeros(p->n_values, sizeof *e->buffer_of);
  e->buffers = zeros(p->n_values, sizeof *e->buffers);
  e->buffer_size = zeros(p->n_values, sizeof *e->buffer_size);
  e->sequence_of = zeros(e->options.max_step_tokens, sizeof *e->sequence_of);
  if (!e->ops || !e->weights || !e->layers || !e->buffer_of || !e->buffers || !e->buffer_size ||
      !e->sequence_of) {
    return BP_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < p->n_ops; ++i) copy_growable(&e->ops[i], p->ops[i], sizeof *e->ops);
  for (uint32_t i = 0; i < p->n_weights; ++i) {
    copy_growable(&e->weights[i], p->weights[i], sizeof *e->weights);
  }
  for (uint32_t i = 0; i < p->n_kv_slots; ++i) {
    e->layers[i].k_width = (uint64_t)p->kv_slots[i].n_kv_heads * p->kv_slots[i].k_head_dim;
    e->layers[i].v_width = (uint64_t)p->kv_slots[i].n_kv_heads * p->kv_slots[i].v_head_dim;
  }
  e->row = zeros(longest_row(e), sizeof(float));
  e->vector = zeros(longest_row(e), sizeof(float));
  return e->row == NULL || e->vector == NULL ? BP_OUT_OF_MEMORY : make_buffers(e);
}

static int keeps(bp_dtype dtype) {
  return dtype == BP_DTYPE_NONE || dtype == BP_DTYPE_F32;
}

bp_status make_executable(const bp_program* program, const bp_compile_options* options,
                          bp_executable** out, bp_error* error) {
  bp_executable* e = calloc(1, sizeof *e);
  if (e == NULL) return fail(error, BP_OUT_OF_MEMORY, "no memory for an executable");
  copy_growable(&e->program, program, sizeof e->program);
  copy_growable(&e->options, options, sizeof e->options);
  e->block_size = e->options.block_size == 0 ? DEFAULT_BLOCK_SIZE : e->options.block_size;
  bp_status status = BP_OK;
  if (e->options.required != 0) {
    status = fail(error, BP_UNSUPPORTED, "the compile options require a feature unknown here");
  } else if (!keeps(e->options.k_dtype) || !keeps(e->options.v_dtype)) {
    status = fail(error, BP_UNSUPPORTED, "the KV cache is kept as f32 only");
  } else if (fill(e) != BP_OK) {
    status = fail(error, BP_OUT_OF_MEMORY, "no memory for the buffers of steps of %u tokens",
                  e->options.max_step_tokens);
  }
  if (status == BP_OK) {
    *out = e;
  } else {
    free_executable(e);
  }
  return status;
}

static void free_kv(bp_executable* e) {
  for (uint32_t i = 0; e->layers != NULL && i < e->program.n_kv_slots; ++i) {
    free(e->layers[i].k);
    free(e->layers[i].v);
    e->layers[i].k = e->layers[i].v = NULL;
  }
}

void free_executable(bp_executable* e) {
  if (e == NULL) return;
  free_kv(e);
  for (uint32_t b = 0; e->buffers != NULL && b < e->program.n_values; ++b) free(e->buffers[b]);
  void* const arrays[] = {e->ops,    e->weights,     e->layers, e->buffer_of,  e->buffers,
                          e->vector, e->buffer_size, e->row,    e->sequence_of};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) free(arrays[i]);
  free(e);
}

/* Of one block of a group, all its slots together. */
static uint64_t block_bytes(const bp_executable* e, uint32_t group) {
  uint64_t floats = 0;
  for (uint32_t i = 0; i < e->program.n_kv_slots; ++i) {
    if (e->program.kv_slots[i].group != group) continue;
    floats += (e->layers[i].k_width + e->layers[i].v_width) * e->block_size;
  }
  return floats * sizeof(float);
}

/* Linux's own estimate; 0 where there is none. */
static uint64_t available_bytes(void) {
  char line[128];
  unsigned long long kib = 0;
  FILE* file = fopen("/proc/meminfo", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  }
  if (file != NULL) fclose(file);
  return kib * 1024;
}

bp_status describe_memory(bp_executable* e, bp_memory_info* out, bp_error* error) {
  (void)error;
  bp_memory_info info = {.struct_size = out->struct_size,
                         .block_size = e->block_size,
                         .available_bytes = available_bytes(),
                         .n_groups = e->program.n_kv_groups,
                         .max_in_flight = 1,
                         .k_dtype = BP_DTYPE_F32,
                         .v_dtype = BP_DTYPE_F32};
  for (uint32_t b = 0; b < e->program.n_values; ++b) {
    info.workspace_bytes += e->buffer_size[b] * sizeof(float);
  }
  for (uint32_t g = 0; g < info.n_groups; ++g) info.block_bytes[g] = block_bytes(e, g);
  memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
  return BP_OK;
}

bp_status allocate_kv(bp_executable* e, const uint32_t* n_blocks, uint32_t n_groups,
                      bp_error* error) {
  if (e->is_allocated) return fail(error, BP_INVALID_ARGUMENT, "the KV cache is allocated already");
  if (n_groups != e->program.n_kv_groups) {
    return fail(error, BP_INVALID_ARGUMENT, "%u KV groups were given, the program has %u", n_groups,
                e->program.n_kv_groups);
  }
  for (uint32_t i = 0; i < e->program.n_kv_slots; ++i) {
    layer* l = &e->layers[i];
    const uint64_t n_tokens = (uint64_t)n_blocks[e->program.kv_slots[i].group] * e->block_size;
    l->k = l->k_width == 0 || n_tokens < UINT64_MAX / l->k_width
               ? zeros(n_tokens * l->k_width, sizeof(float))
               : NULL;
    l->v = l->v_width == 0 || n_tokens < UINT64_MAX / l->v_width
               ? zeros(n_tokens * l->v_width, sizeof(float))
               : NULL;
    if (l->k != NULL && l->v != NULL) continue;
    free_kv(e);
    return fail(error, BP_OUT_OF_MEMORY, "a KV cache of %u blocks of %llu bytes does not fit",
                n_blocks[e->program.kv_slots[i].group],
                (unsigned long long)block_bytes(e, e->program.kv_slots[i].group));
  }
  memcpy(e->n_blocks, n_blocks, n_groups * sizeof *n_blocks);
  e->is_allocated = 1;
  return BP_OK;
}

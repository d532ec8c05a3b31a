/* One batch: its checks, its block ops, and the program's ops one after the other. Nothing is
 * allocated here. */
#include <string.h>

#include "plain.h"

static bp_status check_block_op(const bp_executable* e, const bp_block_op* op, bp_error* error) {
  if (op->action > BP_BLOCK_COPY || op->space != BP_BLOCK_OF_GROUP) {
    return fail(error, BP_UNSUPPORTED, "block op: unknown action %u or space %u", op->action,
                op->space);
  }
  if (op->index >= e->program.n_kv_groups) {
    return fail(error, BP_INVALID_ARGUMENT, "block op: KV group %u does not exist", op->index);
  }
  const int64_t n = e->n_blocks[op->index];
  if (op->destination < 1 || op->destination >= n ||
      (op->action == BP_BLOCK_COPY && (op->source < 0 || op->source >= n))) {
    return fail(error, BP_INVALID_ARGUMENT, "block op: block %d or %d is out of range", op->source,
                op->destination);
  }
  return BP_OK;
}

/* Blocks that are written must be real, those before may be the null block. */
static bp_status check_blocks(const bp_executable* e, const bp_batch* b, uint32_t s, uint32_t group,
                              bp_error* error) {
  const bp_block_table* table = &b->block_tables[group];
  const uint64_t size = e->block_size, n = (b->context_len[s] + size - 1) / size;
  if (table->blocks == NULL || n > table->stride) {
    return fail(error, BP_INVALID_ARGUMENT, "sequence %u: its block table is too short", s);
  }
  const uint64_t first_written = (uint64_t)b->positions[b->query_start[s]] / size;
  for (uint64_t i = 0; i < n; ++i) {
    const int32_t block = table->blocks[s * (uint64_t)table->stride + i];
    if (block >= (i < first_written ? 0 : 1) && (int64_t)block < e->n_blocks[group]) continue;
    return fail(error, BP_INVALID_ARGUMENT, "sequence %u: block id %d is out of range", s, block);
  }
  return BP_OK;
}

static bp_status check_sequence(const bp_executable* e, const bp_batch* b, uint32_t s,
                                bp_error* error) {
  const uint32_t begin = b->query_start[s], end = b->query_start[s + 1];
  if (begin > end || end > b->n_tokens || b->context_len[s] > e->options.max_context) {
    return fail(error, BP_INVALID_ARGUMENT,
                "sequence %u: query_start descends, or context_len %u is beyond the limit %u", s,
                b->context_len[s], e->options.max_context);
  }
  if (begin == end) return BP_OK;
  const int64_t first = b->positions[begin];
  for (uint32_t t = begin; t < end; ++t) {
    if (first < 0 || b->positions[t] != first + (t - begin)) {
      return fail(error, BP_INVALID_ARGUMENT, "sequence %u: positions must ascend by 1 from 0", s);
    }
  }
  if (first + (end - begin) != (int64_t)b->context_len[s]) {
    return fail(error, BP_INVALID_ARGUMENT, "sequence %u: context_len is %u, not %lld", s,
                b->context_len[s], (long long)(first + (end - begin)));
  }
  for (uint32_t g = 0; g < b->n_groups; ++g) {
    const bp_status status = check_blocks(e, b, s, g, error);
    if (status != BP_OK) return status;
  }
  return BP_OK;
}

static bp_status check_output(const bp_executable* e, const bp_batch* b, uint32_t index,
                              uint64_t* n_rows, bp_error* error) {
  bp_output o = {0};
  copy_growable(&o, b->outputs[index], sizeof o);
  if (o.required != 0 || o.dtype != BP_DTYPE_F32) {
    return fail(error, BP_UNSUPPORTED, "output %u requires an unknown feature or type", index);
  }
  if (o.output >= e->program.n_outputs || (o.n_rows > 0 && (o.rows == NULL || o.data == NULL))) {
    return fail(error, BP_INVALID_ARGUMENT, "output %u does not exist, or has no memory", index);
  }
  for (uint32_t r = 0; r < o.n_rows; ++r) {
    if (o.rows[r] < b->n_tokens && (r == 0 || o.rows[r - 1] < o.rows[r])) continue;
    return fail(error, BP_INVALID_ARGUMENT, "output %u: rows must ascend and be tokens", index);
  }
  for (uint32_t i = 0; i < index; ++i) {
    if (b->outputs[i]->output != o.output) continue;
    return fail(error, BP_INVALID_ARGUMENT, "program output %u is asked for twice", o.output);
  }
  *n_rows += o.n_rows;
  return BP_OK;
}

static bp_status check_batch(const bp_executable* e, const bp_batch* b, bp_error* error) {
  const bp_compile_options* limits = &e->options;
  if (b->required != 0) return fail(error, BP_UNSUPPORTED, "the batch requires an unknown feature");
  if (!e->is_allocated) return fail(error, BP_INVALID_ARGUMENT, "kv_allocate comes before a step");
  if (e->is_in_flight) return fail(error, BP_INVALID_ARGUMENT, "a step waits to be collected");
  if (b->n_tokens > limits->max_step_tokens || b->n_seqs > limits->max_sequences) {
    return fail(error, BP_INVALID_ARGUMENT, "%u tokens of %u sequences, the limits are %u and %u",
                b->n_tokens, b->n_seqs, limits->max_step_tokens, limits->max_sequences);
  }
  if (b->n_groups != e->program.n_kv_groups || b->query_start == NULL || b->seq_status == NULL ||
      (b->n_tokens > 0 && (b->tokens == NULL || b->positions == NULL)) ||
      (b->n_seqs > 0 && b->context_len == NULL) || (b->n_groups > 0 && b->block_tables == NULL) ||
      (b->n_block_ops > 0 && b->block_ops == NULL) || (b->n_outputs > 0 && b->outputs == NULL)) {
    return fail(error, BP_INVALID_ARGUMENT, "an array of the batch is missing");
  }
  if (b->query_start[0] != 0 || b->query_start[b->n_seqs] != b->n_tokens) {
    return fail(error, BP_INVALID_ARGUMENT, "query_start must begin with 0 and end with n_tokens");
  }
  bp_status status = BP_OK;
  for (uint32_t i = 0; status == BP_OK && i < b->n_block_ops; ++i) {
    status = check_block_op(e, &b->block_ops[i], error);
  }
  for (uint32_t s = 0; status == BP_OK && s < b->n_seqs; ++s) {
    status = check_sequence(e, b, s, error);
  }
  uint64_t n_rows = 0;
  for (uint32_t i = 0; status == BP_OK && i < b->n_outputs; ++i) {
    status = check_output(e, b, i, &n_rows, error);
  }
  if (status == BP_OK && n_rows > limits->max_output_rows) {
    return fail(error, BP_INVALID_ARGUMENT, "%llu output rows, the limit is %u",
                (unsigned long long)n_rows, limits->max_output_rows);
  }
  return status;
}

static void apply_to(const bp_block_op* op, uint64_t n_floats, float* blocks) {
  float* destination = blocks + (uint64_t)op->destination * n_floats;
  if (op->action == BP_BLOCK_CLEAR) {
    memset(destination, 0, n_floats * sizeof *blocks);
  } else {
    memmove(destination, blocks + (uint64_t)op->source * n_floats, n_floats * sizeof *blocks);
  }
}

static void apply_block_ops(bp_executable* e, const bp_batch* b) {
  for (uint32_t i = 0; i < b->n_block_ops; ++i) {
    for (uint32_t s = 0; s < e->program.n_kv_slots; ++s) {
      if (e->program.kv_slots[s].group != b->block_ops[i].index) continue;
      apply_to(&b->block_ops[i], e->block_size * e->layers[s].k_width, e->layers[s].k);
      apply_to(&b->block_ops[i], e->block_size * e->layers[s].v_width, e->layers[s].v);
    }
  }
}

/* Marks the sequences that the host has stopped; whether any goes on. */
static int poll_stop(const bp_batch* b) {
  int any = 0;
  for (uint32_t s = 0; s < b->n_seqs; ++s) {
    const int stop = b->stop_seq != NULL && __atomic_load_n(&b->stop_seq[s], __ATOMIC_RELAXED) != 0;
    if (stop && b->seq_status[s] == BP_SEQ_OK) b->seq_status[s] = BP_SEQ_STOPPED;
    any |= b->seq_status[s] == BP_SEQ_OK;
  }
  return any;
}

static const bp_output* asked_of(const bp_batch* b, uint32_t output) {
  for (uint32_t i = 0; i < b->n_outputs; ++i) {
    if (b->outputs[i]->output == output) return b->outputs[i];
  }
  return NULL;
}

static matrix matrix_of(const bp_executable* e, const bp_batch* b, uint32_t value) {
  matrix m = {NULL, 0, 0};
  if (value == BP_NONE) return m;
  const bp_value* v = &e->program.values[value];
  const bp_output* asked = v->rows == BP_ROWS_OUTPUT ? asked_of(b, v->output) : NULL;
  m.n_rows = v->rows == BP_ROWS_TOKENS ? b->n_tokens : asked == NULL ? 0 : asked->n_rows;
  m.width = v->width;
  if (e->buffer_of[value] != BP_NONE) m.data = e->buffers[e->buffer_of[value]];
  return m;
}

static void run_op(bp_executable* e, const bp_batch* b, const bp_op* op) {
  call c = {.executable = e, .batch = b, .op = op};
  for (uint32_t i = 0; i < op->n_inputs; ++i) c.inputs[i] = matrix_of(e, b, op->inputs[i]);
  if (op->n_outputs > 0) {
    const bp_value* v = &e->program.values[op->outputs[0]];
    c.output = matrix_of(e, b, op->outputs[0]);
    if (v->rows == BP_ROWS_OUTPUT) c.asked = asked_of(b, v->output);
  }
  find_op(op->kind)->run(&c);
}

static void write_outputs(const bp_executable* e, const bp_batch* b) {
  for (uint32_t i = 0; i < b->n_outputs; ++i) {
    const bp_output* o = b->outputs[i];
    const uint32_t value = e->program.outputs[o->output];
    const int all_tokens = e->program.values[value].rows == BP_ROWS_TOKENS;
    const matrix m = matrix_of(e, b, value);
    for (uint32_t r = 0; r < o->n_rows; ++r) {
      if (b->seq_status[e->sequence_of[o->rows[r]]] != BP_SEQ_OK) continue;
      memcpy((char*)o->data + r * o->row_stride_bytes,
             m.data + (all_tokens ? o->rows[r] : r) * m.width, m.width * sizeof(float));
    }
  }
}

bp_status run_step(bp_executable* e, const bp_batch* batch, uint64_t* ticket, bp_error* error) {
  bp_batch b = {0};
  copy_growable(&b, batch, sizeof b);
  const bp_status status = check_batch(e, &b, error);
  if (status != BP_OK) return status;
  apply_block_ops(e, &b);
  for (uint32_t s = 0; s < b.n_seqs; ++s) {
    b.seq_status[s] = BP_SEQ_OK;
    for (uint32_t t = b.query_start[s]; t < b.query_start[s + 1]; ++t) e->sequence_of[t] = s;
  }
  for (uint32_t i = 0; i < e->program.n_ops && poll_stop(&b); ++i) run_op(e, &b, &e->ops[i]);
  if (poll_stop(&b)) write_outputs(e, &b);
  *ticket = ++e->last_ticket;
  e->is_in_flight = 1;
  return BP_OK;
}

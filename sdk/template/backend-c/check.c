/* Every obstacle of a program, with the op and a sentence. What passes here, the ops run without a
 * look back: indices, shapes and attributes are right. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

#define MAX_WIDTH (1u << 30) /* floats of a value's row, so that no product wraps */

typedef struct checker {
  bp_program program;
  const bp_check_report* report; /* or NULL */
  uint32_t op_index;             /* BP_NONE outside of ops */
  bp_op op;
  uint32_t n_obstacles;
  uint8_t* is_written; /* [n_values] */
} checker;

static void obstacle(checker* c, const char* format, ...) {
  char sentence[400], name[100] = "";
  va_list arguments;
  va_start(arguments, format);
  int n = 0;
  if (c->op_index != BP_NONE) {
    snprintf(name, sizeof name, "op \"%s\" (%s): ", c->op.name == NULL ? "" : c->op.name,
             c->op.kind == NULL ? "" : c->op.kind);
    n = snprintf(sentence, sizeof sentence, "%s", name);
  }
  vsnprintf(sentence + n, sizeof sentence - (size_t)n, format, arguments);
  va_end(arguments);
  ++c->n_obstacles;
  if (c->report != NULL) {
    c->report->obstacle(c->report->user, c->op_index, (bp_str){sentence, strlen(sentence)});
  }
}

/* ---- program, values, weights ---------------------------------------------------------------- */

static void check_value(checker* c, uint32_t index) {
  const bp_value* v = &c->program.values[index];
  const int rows =
      v->rows == BP_ROWS_TOKENS || (v->rows == BP_ROWS_OUTPUT && v->output < c->program.n_outputs);
  const int type = v->dtype == BP_DTYPE_F32 || (v->dtype == BP_DTYPE_I32 && v->width == 1);
  if (rows && type && v->width > 0 && v->width <= MAX_WIDTH) return;
  obstacle(c, "value %u has rows, a type or a width that this backend does not know", index);
}

static int lies_within(const bp_weight_part* p, uint64_t bytes_of_row) {
  double rows = 1; /* products of hostile dimensions must not wrap */
  for (uint32_t d = 0; d + 1 < p->n_dims; ++d) rows *= (double)p->dims[d];
  if (p->data == NULL || rows < 1) return 0;
  if (p->n_dims > 1 && p->row_stride_bytes < bytes_of_row) return 0;
  return (rows - 1) * (double)p->row_stride_bytes + (double)bytes_of_row <= (double)p->n_bytes;
}

static void check_weight(checker* c, uint32_t index) {
  bp_weight w = {0};
  copy_growable(&w, c->program.weights[index], sizeof w);
  const char* name = w.name == NULL ? "" : w.name;
  if (w.required != 0)
    obstacle(c, "weight \"%s\" requires a feature unknown to this version", name);
  if (w.n_parts != 1 || w.parts[0].role != BP_PART_DATA) {
    obstacle(c, "weight \"%s\" has parts beside its data", name);
    return;
  }
  const bp_weight_part* p = &w.parts[0];
  const uint64_t width = p->n_dims >= 1 && p->n_dims <= 4 ? p->dims[p->n_dims - 1] : 0;
  if (row_bytes(p->dtype, 32) == 0) {
    obstacle(c, "weight \"%s\" has element type %u; this backend reads f32, f16 and q8_0", name,
             p->dtype);
  } else if (width == 0 || width > MAX_WIDTH || width % block_elements(p->dtype) != 0) {
    obstacle(c, "weight \"%s\" has no dimensions that this backend can read", name);
  } else if (!lies_within(p, row_bytes(p->dtype, width))) {
    obstacle(c, "weight \"%s\" does not lie within its %llu bytes", name,
             (unsigned long long)p->n_bytes);
  }
}

static void check_program_itself(checker* c) {
  const bp_program* p = &c->program;
  if (p->required != 0) obstacle(c, "the program requires a feature unknown to this version");
  if (p->n_state_slots > 0) obstacle(c, "state slots are not supported");
  if (p->n_kv_groups > MAX_GROUPS) obstacle(c, "more than %u KV groups", MAX_GROUPS);
  for (uint32_t i = 0; i < p->n_kv_slots; ++i) {
    const bp_kv_slot* s = &p->kv_slots[i];
    if (s->group >= p->n_kv_groups) obstacle(c, "KV slot %u names no group", i);
    if ((uint64_t)s->n_kv_heads * s->k_head_dim > MAX_WIDTH ||
        (uint64_t)s->n_kv_heads * s->v_head_dim > MAX_WIDTH) {
      obstacle(c, "KV slot %u is too wide", i);
    }
  }
  for (uint32_t i = 0; i < p->n_values; ++i) check_value(c, i);
  for (uint32_t i = 0; i < p->n_weights; ++i) check_weight(c, i);
  for (uint32_t i = 0; i < p->n_inputs; ++i) {
    if (p->inputs[i] >= p->n_values || p->values[p->inputs[i]].dtype != BP_DTYPE_I32) {
      obstacle(c, "program input %u is no list of token ids", i);
    } else {
      c->is_written[p->inputs[i]] = 1;
    }
  }
}

/* ---- ops ---------------------------------------------------------------------------------------
 */

static const bp_value* value(const checker* c, const uint32_t* slots, uint32_t n, uint32_t i) {
  const uint32_t index = slot(slots, n, i);
  return index < c->program.n_values ? &c->program.values[index] : NULL;
}
static const bp_value* in(const checker* c, uint32_t i) {
  return value(c, c->op.inputs, c->op.n_inputs, i);
}
static const bp_value* out(const checker* c) {
  return value(c, c->op.outputs, c->op.n_outputs, 0);
}

static const bp_weight_part* weight(const checker* c) {
  const uint32_t index = slot(c->op.weights, c->op.n_weights, 0);
  if (index >= c->program.n_weights) return NULL;
  bp_weight w = {0};
  copy_growable(&w, c->program.weights[index], sizeof w);
  return w.parts;
}

static int same_rows(const bp_value* a, const bp_value* b) {
  return a->rows == b->rows && a->output == b->output;
}
static int is_matrix(const bp_weight_part* w, uint64_t n_out, uint64_t n_in) {
  return w != NULL && w->n_dims == 2 && w->dims[0] == n_out && w->dims[1] == n_in;
}
static int is_vector(const bp_weight_part* w, uint64_t n) {
  return w != NULL && w->n_dims == 1 && w->dims[0] == n;
}

static void check_slots(checker* c, const op_info* info) {
  const bp_op* op = &c->op;
  if (op->n_inputs > info->n_inputs || op->n_outputs > info->n_outputs ||
      op->n_weights > info->n_weights || in(c, 0) == NULL ||
      (info->n_outputs > 0 && out(c) == NULL)) {
    obstacle(c, "has too many or too few inputs, outputs or weights");
    return;
  }
  for (uint32_t i = 0; i < op->n_inputs; ++i) {
    if (op->inputs[i] == BP_NONE) continue;
    if (op->inputs[i] >= c->program.n_values || !c->is_written[op->inputs[i]]) {
      obstacle(c, "input %u is out of range, or read before it is written", i);
    }
  }
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    if (c->is_written[op->outputs[i]]) obstacle(c, "writes a value that is written already");
    c->is_written[op->outputs[i]] = 1;
  }
  const uint32_t w = slot(op->weights, op->n_weights, 0);
  if (w != BP_NONE && w >= c->program.n_weights) obstacle(c, "its weight is out of range");
  for (uint32_t i = 0; i < info->n_inputs; ++i) {
    const int ids = strcmp(op->kind, BP_OP_GATHER) == 0;
    if (in(c, i) != NULL && (in(c, i)->dtype == BP_DTYPE_I32) != ids) {
      obstacle(c, "input %u has the wrong type", i);
    }
  }
}

static void check_attributes(checker* c, const op_info* info) {
  struct {
    uint32_t struct_size, first;
    uint64_t required;
  } head = {0, 0, 0};
  if (info->attributes_bytes == 0) return;
  if (c->op.attributes == NULL) obstacle(c, "has no attributes");
  copy_growable(&head, c->op.attributes, sizeof head);
  if (head.required != 0) obstacle(c, "its attributes require a feature unknown to this version");
}

#define ATTRIBUTES(type, name, ...)                      \
  type name = {.struct_size = sizeof name, __VA_ARGS__}; \
  copy_growable(&name, c->op.attributes, sizeof name)

/* Of an op whose output has the rows and the width of its input. */
static int is_elementwise(const checker* c) {
  return same_rows(in(c, 0), out(c)) && in(c, 0)->width == out(c)->width;
}

static int check_pair(const checker* c) {
  const bp_weight_part* w = weight(c);
  if (!is_elementwise(c) || (in(c, 1) == NULL) == (w == NULL)) return 0;
  if (w != NULL) return w->n_dims == 1 && out(c)->width % w->dims[0] == 0;
  return same_rows(in(c, 1), out(c)) && in(c, 1)->width == out(c)->width;
}

static int check_rotate(const checker* c) {
  ATTRIBUTES(bp_attr_rotate, a, .magnitude = 1);
  return is_elementwise(c) && out(c)->rows == BP_ROWS_TOKENS && a.pairing <= BP_ROPE_PAIRS &&
         a.n_dims > 0 && a.n_dims % 2 == 0 && a.n_dims <= a.head_dim &&
         (uint64_t)a.n_heads * a.head_dim == out(c)->width && is_vector(weight(c), a.n_dims / 2);
}

static int check_kv_write(const checker* c) {
  ATTRIBUTES(bp_attr_kv_write, a, .kv_slot = 0);
  if (a.kv_slot >= c->program.n_kv_slots || in(c, 1) == NULL) return 0;
  const bp_kv_slot* s = &c->program.kv_slots[a.kv_slot];
  return in(c, 0)->rows == BP_ROWS_TOKENS && in(c, 1)->rows == BP_ROWS_TOKENS &&
         in(c, 0)->width == (uint64_t)s->n_kv_heads * s->k_head_dim &&
         in(c, 1)->width == (uint64_t)s->n_kv_heads * s->v_head_dim;
}

static int check_attend(const checker* c) {
  ATTRIBUTES(bp_attr_attention, a, .causal = 1);
  if (a.kv_slot >= c->program.n_kv_slots) return 0;
  const bp_kv_slot* s = &c->program.kv_slots[a.kv_slot];
  return a.writes_kv == 0 && a.n_kv_heads > 0 && a.n_heads % a.n_kv_heads == 0 &&
         s->n_kv_heads == a.n_kv_heads && s->k_head_dim == a.head_dim &&
         s->v_head_dim == a.v_head_dim && a.softcap >= 0 && in(c, 0)->rows == BP_ROWS_TOKENS &&
         in(c, 0)->width == (uint64_t)a.n_heads * a.head_dim && same_rows(in(c, 0), out(c)) &&
         out(c)->width == (uint64_t)a.n_heads * a.v_head_dim &&
         (weight(c) == NULL || is_vector(weight(c), a.n_heads));
}

static int check_shapes(const checker* c) {
  const char* kind = c->op.kind;
  const bp_value *x = in(c, 0), *y = out(c);
  if (strcmp(kind, BP_OP_SELECT_ROWS) == 0) {
    return x->rows == BP_ROWS_TOKENS && y->rows == BP_ROWS_OUTPUT && x->width == y->width;
  }
  if (strcmp(kind, BP_OP_GATHER) == 0) {
    const bp_weight_part* w = weight(c);
    return y->rows == BP_ROWS_TOKENS && w != NULL && is_matrix(w, w->dims[0], y->width);
  }
  if (strcmp(kind, BP_OP_MATMUL) == 0) {
    return same_rows(x, y) && is_matrix(weight(c), y->width, x->width);
  }
  if (strcmp(kind, BP_OP_ADD) == 0 || strcmp(kind, BP_OP_MULTIPLY) == 0) return check_pair(c);
  if (strcmp(kind, BP_OP_NORMALIZE) == 0) {
    ATTRIBUTES(bp_attr_normalize, a, .kind = BP_NORM_RMS);
    return is_elementwise(c) && a.kind <= BP_NORM_LAYER &&
           (a.group == 0 || x->width % a.group == 0);
  }
  if (strcmp(kind, BP_OP_ACTIVATE) == 0) {
    ATTRIBUTES(bp_attr_activate, a, .activation = BP_ACT_NONE);
    return is_elementwise(c) && a.activation <= BP_ACT_TANH;
  }
  if (strcmp(kind, BP_OP_SLICE) == 0) {
    ATTRIBUTES(bp_attr_slice, a, .first = 0);
    return same_rows(x, y) && y->width == a.n && a.n <= x->width && a.first <= x->width - a.n;
  }
  if (strcmp(kind, BP_OP_ROTATE) == 0) return check_rotate(c);
  if (strcmp(kind, BP_OP_KV_WRITE) == 0) return check_kv_write(c);
  if (strcmp(kind, BP_OP_ATTEND) == 0) return check_attend(c);
  return is_elementwise(c); /* scale */
}

static void check_op(checker* c) {
  const op_info* info = find_op(c->op.kind);
  const uint32_t before = c->n_obstacles;
  if (info == NULL) {
    obstacle(c, "is none of the primitives that this backend has");
    for (uint32_t i = 0; i < c->op.n_outputs;
         ++i) { /* the ops after it are looked at all the same */
      if (c->op.outputs[i] < c->program.n_values) c->is_written[c->op.outputs[i]] = 1;
    }
    return;
  }
  if (c->op.version > 1)
    obstacle(c, "version %u is unknown, the highest known is 1", c->op.version);
  if (c->op.required != 0) obstacle(c, "requires a feature unknown to this version");
  check_slots(c, info);
  check_attributes(c, info);
  if (c->n_obstacles == before && !check_shapes(c)) {
    obstacle(c, "its shapes and attributes do not go together");
  }
}

bp_status check_program(const bp_program* program, const bp_check_report* report, bp_error* error) {
  checker c = {.report = report, .op_index = BP_NONE};
  copy_growable(&c.program, program, sizeof c.program);
  c.is_written = calloc(c.program.n_values + 1u, 1);
  if (c.is_written == NULL) return fail(error, BP_OUT_OF_MEMORY, "no memory to check a program");
  check_program_itself(&c);
  const int weights_are_right = c.n_obstacles == 0; /* and values: ops look into them */
  for (uint32_t i = 0; i < c.program.n_ops && weights_are_right; ++i) {
    memset(&c.op, 0, sizeof c.op);
    copy_growable(&c.op, c.program.ops[i], sizeof c.op);
    c.op_index = i;
    check_op(&c);
  }
  c.op_index = BP_NONE;
  for (uint32_t i = 0; i < c.program.n_outputs && weights_are_right; ++i) {
    const uint32_t v = c.program.outputs[i];
    if (v >= c.program.n_values || !c.is_written[v] || c.program.values[v].dtype != BP_DTYPE_F32) {
      obstacle(&c, "program output %u is no float32 value that an op writes", i);
    }
  }
  free(c.is_written);
  if (c.n_obstacles == 0) return BP_OK;
  return fail(error, BP_UNSUPPORTED, "%u obstacles were reported", c.n_obstacles);
}

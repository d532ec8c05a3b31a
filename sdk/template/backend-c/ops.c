/* The primitives of backplane/ops.h, one function each; sums in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

static float half_to_float(uint16_t h) {
  const uint32_t exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  double value;
  if (exponent == 0) {
    value = ldexp(mantissa, -24);
  } else if (exponent < 31) {
    value = ldexp(mantissa + 1024.0, (int)exponent - 25);
  } else {
    value = mantissa == 0 ? INFINITY : NAN;
  }
  return (float)((h & 0x8000u) != 0 ? -value : value);
}

static uint16_t read_u16(const uint8_t* from) {
  return (uint16_t)(from[0] | from[1] << 8);
}

uint32_t block_elements(bp_dtype dtype) {
  return dtype == BP_DTYPE_Q8_0 ? 32 : 1;
}

uint64_t row_bytes(bp_dtype dtype, uint64_t n) {
  switch (dtype) {
    case BP_DTYPE_F32:
      return n * 4;
    case BP_DTYPE_F16:
      return n * 2;
    case BP_DTYPE_Q8_0:
      return n / 32 * 34; /* a half-precision scale, then 32 signed bytes */
    default:
      return 0;
  }
}

static void decode(bp_dtype dtype, const uint8_t* from, uint64_t n, float* out) {
  if (dtype == BP_DTYPE_F32) {
    memcpy(out, from, n * sizeof *out);
  } else if (dtype == BP_DTYPE_F16) {
    for (uint64_t i = 0; i < n; ++i) out[i] = half_to_float(read_u16(from + 2 * i));
  } else {
    for (uint64_t i = 0; i < n; i += 32, from += 34) {
      const float scale = half_to_float(read_u16(from));
      for (uint32_t k = 0; k < 32; ++k) out[i + k] = scale * (float)(int8_t)from[2 + k];
    }
  }
}

static const bp_weight_part* weight(const call* c, uint32_t i) {
  const uint32_t index = slot(c->op->weights, c->op->n_weights, i);
  return index == BP_NONE ? NULL : c->executable->weights[index].parts;
}

/* All values of a weight of one dimension, in the executable's scratch; NULL for an absent one. */
static const float* vector(const call* c, uint32_t i) {
  const bp_weight_part* part = weight(c, i);
  if (part == NULL) return NULL;
  decode(part->dtype, part->data, part->dims[0], c->executable->vector);
  return c->executable->vector;
}

static const float* weight_row(const call* c, const bp_weight_part* part, uint64_t i) {
  const uint64_t width = part->dims[part->n_dims - 1];
  decode(part->dtype, (const uint8_t*)part->data + i * part->row_stride_bytes, width,
         c->executable->row);
  return c->executable->row;
}

static float* row_of(matrix m, uint64_t i) {
  return m.data + i * m.width;
}

static int is_running(const call* c, uint64_t token) {
  return c->batch->seq_status[c->executable->sequence_of[token]] == BP_SEQ_OK;
}

/* Attributes of the op over their defaults. */
#define ATTRIBUTES(type, name, ...)                      \
  type name = {.struct_size = sizeof name, __VA_ARGS__}; \
  copy_growable(&name, c->op->attributes, sizeof name)

static void run_select_rows(call* c) {
  for (uint32_t r = 0; r < c->output.n_rows; ++r) {
    memcpy(row_of(c->output, r), row_of(c->inputs[0], c->asked->rows[r]),
           c->output.width * sizeof(float));
  }
}

static void run_gather(call* c) {
  const bp_weight_part* table = weight(c, 0);
  for (uint64_t t = 0; t < c->output.n_rows; ++t) {
    const int32_t id = c->batch->tokens[t];
    if (id >= 0 && (uint64_t)id < table->dims[0]) {
      memcpy(row_of(c->output, t), weight_row(c, table, (uint64_t)id),
             c->output.width * sizeof(float));
    } else {
      memset(row_of(c->output, t), 0, c->output.width * sizeof(float));
      if (is_running(c, t)) {
        c->batch->seq_status[c->executable->sequence_of[t]] = BP_SEQ_FAILED;
      }
    }
  }
}

static double dot(const float* a, const float* b, uint64_t n) {
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += (double)a[i] * (double)b[i];
  return sum;
}

static void run_matmul(call* c) {
  const bp_weight_part* w = weight(c, 0); /* [n_out, n_in] */
  const matrix x = c->inputs[0];
  for (uint64_t o = 0; o < c->output.width; ++o) {
    const float* row = weight_row(c, w, o);
    for (uint64_t t = 0; t < x.n_rows; ++t) {
      row_of(c->output, t)[o] = (float)dot(row_of(x, t), row, x.width);
    }
  }
}

/* The second operand of add and multiply: input b, or a weight that repeats along the row. */
static float operand(const call* c, const float* w, uint64_t n_w, uint64_t i) {
  return w == NULL ? c->inputs[1].data[i] : w[i % c->output.width % n_w];
}

static void run_add(call* c) {
  const float* w = vector(c, 0);
  const uint64_t n_w = w == NULL ? 1 : weight(c, 0)->dims[0];
  for (uint64_t i = 0; i < c->output.n_rows * c->output.width; ++i) {
    c->output.data[i] = c->inputs[0].data[i] + operand(c, w, n_w, i);
  }
}

static void run_multiply(call* c) {
  ATTRIBUTES(bp_attr_multiply, a, .weight_offset = 0);
  const float* w = vector(c, 0);
  const uint64_t n_w = w == NULL ? 1 : weight(c, 0)->dims[0];
  const float offset = w == NULL ? 0 : a.weight_offset;
  for (uint64_t i = 0; i < c->output.n_rows * c->output.width; ++i) {
    c->output.data[i] = c->inputs[0].data[i] * (operand(c, w, n_w, i) + offset);
  }
}

static void run_scale(call* c) {
  ATTRIBUTES(bp_attr_scale, a, .factor = 0);
  for (uint64_t i = 0; i < c->output.n_rows * c->output.width; ++i) {
    c->output.data[i] = c->inputs[0].data[i] * a.factor;
  }
}

static void normalize_group(const float* x, uint64_t n, const bp_attr_normalize* a, float* y) {
  double mean = 0, variance = 0;
  if (a->kind == BP_NORM_LAYER) {
    for (uint64_t i = 0; i < n; ++i) mean += x[i];
    mean /= (double)n;
  }
  for (uint64_t i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const double factor = 1 / sqrt(variance / (double)n + (double)a->eps);
  for (uint64_t i = 0; i < n; ++i) y[i] = (float)((x[i] - mean) * factor);
}

static void run_normalize(call* c) {
  ATTRIBUTES(bp_attr_normalize, a, .kind = BP_NORM_RMS);
  const uint64_t n = a.group == 0 ? c->output.width : a.group;
  for (uint64_t i = 0; i < c->output.n_rows * c->output.width; i += n) {
    normalize_group(c->inputs[0].data + i, n, &a, c->output.data + i);
  }
}

static double activate(uint32_t activation, double x) {
  switch (activation) { /* comparisons are written so that a NaN stays one */
    case BP_ACT_SILU:
      return x / (1 + exp(-x));
    case BP_ACT_GELU:
      return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case BP_ACT_GELU_TANH:
      return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case BP_ACT_RELU:
      return x < 0 ? 0 : x;
    case BP_ACT_RELU2:
      return x < 0 ? 0 : x * x;
    case BP_ACT_SIGMOID:
      return 1 / (1 + exp(-x));
    case BP_ACT_TANH:
      return tanh(x);
    default:
      return x;
  }
}

static void run_activate(call* c) {
  ATTRIBUTES(bp_attr_activate, a, .activation = BP_ACT_NONE);
  for (uint64_t i = 0; i < c->output.n_rows * c->output.width; ++i) {
    c->output.data[i] = (float)activate(a.activation, c->inputs[0].data[i]);
  }
}

static void run_rotate(call* c) {
  ATTRIBUTES(bp_attr_rotate, a, .magnitude = 1);
  const float* inv_freq = vector(c, 0); /* [n_dims/2] */
  const uint32_t n_pairs = a.n_dims / 2;
  const int halves = a.pairing == BP_ROPE_HALVES;
  memcpy(c->output.data, c->inputs[0].data, c->output.n_rows * c->output.width * sizeof(float));
  for (uint64_t t = 0; t < c->output.n_rows; ++t) {
    for (uint32_t i = 0; i < n_pairs; ++i) {
      const double angle = (double)c->batch->positions[t] * (double)inv_freq[i];
      const double cosine = cos(angle) * (double)a.magnitude,
                   sine = sin(angle) * (double)a.magnitude;
      for (uint32_t head = 0; head < a.n_heads; ++head) {
        float* u = row_of(c->output, t) + (uint64_t)head * a.head_dim + (halves ? i : 2 * i);
        float* v = u + (halves ? n_pairs : 1);
        const double x = *u, y = *v;
        *u = (float)(x * cosine - y * sine);
        *v = (float)(x * sine + y * cosine);
      }
    }
  }
}

/* Where position p of a sequence lies in a KV slot, counted in tokens. */
static uint64_t place_of(const call* c, uint32_t kv_slot, uint32_t sequence, uint64_t p) {
  const uint32_t size = c->executable->block_size;
  const bp_block_table* table =
      &c->batch->block_tables[c->executable->program.kv_slots[kv_slot].group];
  const int32_t block = table->blocks[(uint64_t)sequence * table->stride + p / size];
  return (uint64_t)block * size + p % size;
}

static void run_kv_write(call* c) {
  ATTRIBUTES(bp_attr_kv_write, a, .kv_slot = 0);
  const layer* l = &c->executable->layers[a.kv_slot];
  for (uint32_t t = 0; t < c->batch->n_tokens; ++t) {
    if (!is_running(c, t)) continue;
    const uint64_t place =
        place_of(c, a.kv_slot, c->executable->sequence_of[t], (uint64_t)c->batch->positions[t]);
    memcpy(l->k + place * l->k_width, row_of(c->inputs[0], t), l->k_width * sizeof(float));
    memcpy(l->v + place * l->v_width, row_of(c->inputs[1], t), l->v_width * sizeof(float));
  }
}

/* One query head of one token; sink is NULL or the head's. */
static void attend_head(const call* c, const bp_attr_attention* a, uint32_t token, uint32_t head,
                        const float* sink) {
  const layer* l = &c->executable->layers[a->kv_slot];
  const uint32_t sequence = c->executable->sequence_of[token];
  const uint32_t kv_head = head / (a->n_heads / a->n_kv_heads);
  const uint64_t position = (uint64_t)c->batch->positions[token];
  const uint64_t end = a->causal != 0 ? position + 1 : c->batch->context_len[sequence];
  const uint64_t begin = a->window != 0 && position + 1 > a->window ? position + 1 - a->window : 0;
  const float* q = row_of(c->inputs[0], token) + (uint64_t)head * a->head_dim;
  float* out = row_of(c->output, token) + (uint64_t)head * a->v_head_dim;
  float* scores = c->executable->row;

  double largest = sink == NULL ? -INFINITY : (double)*sink;
  for (uint64_t p = begin; p < end; ++p) {
    const float* k = l->k + place_of(c, a->kv_slot, sequence, p) * l->k_width;
    double score = dot(q, k + (uint64_t)kv_head * a->head_dim, a->head_dim) * (double)a->scale;
    if (a->softcap != 0) score = (double)a->softcap * tanh(score / (double)a->softcap);
    scores[p - begin] = (float)score;
    if ((double)scores[p - begin] > largest) largest = scores[p - begin];
  }
  double total = sink == NULL ? 0 : exp((double)*sink - largest);
  for (uint64_t p = begin; p < end; ++p) {
    scores[p - begin] = (float)exp((double)scores[p - begin] - largest);
    total += scores[p - begin];
  }
  for (uint32_t d = 0; d < a->v_head_dim; ++d) {
    double sum = 0;
    for (uint64_t p = begin; p < end; ++p) {
      const float* v = l->v + place_of(c, a->kv_slot, sequence, p) * l->v_width;
      sum += (double)scores[p - begin] * (double)v[(uint64_t)kv_head * a->v_head_dim + d];
    }
    out[d] = (float)(sum / total);
  }
}

static void run_attend(call* c) {
  ATTRIBUTES(bp_attr_attention, a, .causal = 1);
  const float* sinks = vector(c, 0);
  for (uint32_t t = 0; t < c->output.n_rows; ++t) {
    if (!is_running(c, t)) {
      memset(row_of(c->output, t), 0, c->output.width * sizeof(float));
      continue;
    }
    for (uint32_t h = 0; h < a.n_heads; ++h) {
      attend_head(c, &a, t, h, sinks == NULL ? NULL : sinks + h);
    }
  }
}

static void run_slice(call* c) {
  ATTRIBUTES(bp_attr_slice, a, .first = 0);
  for (uint64_t t = 0; t < c->output.n_rows; ++t) {
    memcpy(row_of(c->output, t), row_of(c->inputs[0], t) + a.first, a.n * sizeof(float));
  }
}

static const op_info infos[] = {
    {BP_OP_SELECT_ROWS, 1, 1, 0, 0, run_select_rows},
    {BP_OP_GATHER, 1, 1, 1, 0, run_gather},
    {BP_OP_MATMUL, 1, 1, 1, 0, run_matmul},
    {BP_OP_ADD, 2, 1, 1, 0, run_add},
    {BP_OP_MULTIPLY, 2, 1, 1, sizeof(bp_attr_multiply), run_multiply},
    {BP_OP_SCALE, 1, 1, 0, sizeof(bp_attr_scale), run_scale},
    {BP_OP_NORMALIZE, 1, 1, 0, sizeof(bp_attr_normalize), run_normalize},
    {BP_OP_ACTIVATE, 1, 1, 0, sizeof(bp_attr_activate), run_activate},
    {BP_OP_ROTATE, 1, 1, 1, sizeof(bp_attr_rotate), run_rotate},
    {BP_OP_KV_WRITE, 2, 0, 0, sizeof(bp_attr_kv_write), run_kv_write},
    {BP_OP_ATTEND, 1, 1, 1, sizeof(bp_attr_attention), run_attend},
    {BP_OP_SLICE, 1, 1, 0, sizeof(bp_attr_slice), run_slice},
};

const op_info* find_op(const char* kind) {
  for (uint32_t i = 0; kind != NULL && i < sizeof infos / sizeof infos[0]; ++i) {
    if (strcmp(infos[i].kind, kind) == 0) return &infos[i];
  }
  return NULL;
}

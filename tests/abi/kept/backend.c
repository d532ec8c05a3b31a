/* Whatever the program is, the logits behind a token are 1 for the token after it, else 0. */
#include <stdlib.h>

#include "backplane/backend.h"
#include "kept.h"

enum { kBlockSize = 16 };

struct bp_backend {
  char unused;
};
struct bp_executable {
  bp_program program;
  uint64_t last_ticket;
};

static bp_status create(const bp_host* host, const bp_params* config, bp_backend** out,
                        bp_error* error) {
  (void)host, (void)config;
  bp_backend* made = malloc(sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  *out = made;
  return BP_OK;
}

static void destroy(bp_backend* backend) {
  free(backend);
}

static bp_status check(bp_backend* backend, const bp_program* program,
                       const bp_check_report* report, bp_error* error) {
  static const char sentence[] = "the program requires a new feature";
  (void)backend;
  if (program->required == 0) return BP_OK;
  if (report != NULL) {
    const bp_str text = {sentence, sizeof sentence - 1};
    report->obstacle(report->user, BP_NONE, text);
  }
  return fail(BP_UNSUPPORTED, sentence, error);
}

static bp_status compile(bp_backend* backend, const bp_program* program,
                         const bp_compile_options* options, bp_executable** out, bp_error* error) {
  if (options->required != 0) return fail(BP_UNSUPPORTED, "no option is required here", error);
  const bp_status status = check(backend, program, NULL, error);
  if (status != BP_OK) return status;
  bp_executable* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(BP_OUT_OF_MEMORY, "no memory", error);
  READ(made->program, program);
  *out = made;
  return BP_OK;
}

static void destroy_executable(bp_executable* executable) {
  free(executable);
}

static bp_status memory(bp_executable* executable, bp_memory_info* out, bp_error* error) {
  (void)error;
  bp_memory_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = out->struct_size;
  info.block_size = kBlockSize;
  info.available_bytes = 1u << 30;
  info.n_groups = executable->program.n_kv_groups;
  info.max_in_flight = 1;
  for (uint32_t g = 0; g < info.n_groups && g < 8; ++g) info.block_bytes[g] = 1;
  info.k_dtype = info.v_dtype = BP_DTYPE_F32;
  memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
  return BP_OK;
}

static bp_status kv_allocate(bp_executable* executable, const uint32_t* n_blocks, uint32_t n_groups,
                             bp_error* error) {
  (void)executable, (void)n_blocks, (void)n_groups, (void)error;
  return BP_OK;
}

static bp_status warm_up(bp_executable* executable, const bp_progress* progress, bp_error* error) {
  (void)executable, (void)progress, (void)error;
  return BP_OK;
}

static void write_output(const bp_program* program, const bp_batch* batch,
                         const bp_output* output) {
  const uint64_t width = program->values[program->outputs[output->output]].width;
  for (uint32_t r = 0; r < output->n_rows; ++r) {
    float* row = (float*)((char*)output->data + r * output->row_stride_bytes);
    const uint64_t next = ((uint64_t)batch->tokens[output->rows[r]] + 1) % width;
    for (uint64_t i = 0; i < width; ++i) row[i] = i == next ? 1.0f : 0.0f;
  }
}

static bp_status submit(bp_executable* executable, const bp_batch* batch, uint64_t* ticket,
                        bp_error* error) {
  if (batch->required != 0) return fail(BP_UNSUPPORTED, "the batch requires a new feature", error);
  for (uint32_t i = 0; i < batch->n_outputs; ++i) {
    write_output(&executable->program, batch, batch->outputs[i]);
  }
  for (uint32_t s = 0; s < batch->n_seqs; ++s) batch->seq_status[s] = BP_SEQ_OK;
  *ticket = ++executable->last_ticket;
  return BP_OK;
}

static bp_status collect(bp_executable* executable, uint64_t ticket, bp_error* error) {
  if (ticket == executable->last_ticket) return BP_OK;
  return fail(BP_INVALID_ARGUMENT, "no step has this ticket", error);
}

static const bp_backend_factory factory = {
    sizeof factory, 0,           create,  destroy, check,   compile, destroy_executable,
    memory,         kv_allocate, warm_up, submit,  collect, NULL};
KEPT_PLUGIN("kept-backend", BP_BACKEND_ID, factory)

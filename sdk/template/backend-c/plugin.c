/* The tables of functions, and what all files use. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

bp_status fail(bp_error* error, bp_status status, const char* format, ...) {
  if (error == NULL) return status;
  error->status = status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return status;
}

void copy_growable(void* mine, const void* other, uint32_t size) {
  uint32_t theirs = 0;
  if (other == NULL) return;
  memcpy(&theirs, other, sizeof theirs);
  memcpy(mine, other, theirs < size ? theirs : size);
}

uint32_t slot(const uint32_t* slots, uint32_t n, uint32_t i) {
  return i < n ? slots[i] : BP_NONE;
}

static bp_status create(const bp_host* host, const bp_params* config, bp_backend** out,
                        bp_error* error) {
  (void)config;
  bp_backend* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(error, BP_OUT_OF_MEMORY, "no memory for a backend");
  copy_growable(&made->host, host, sizeof made->host);
  *out = made;
  return BP_OK;
}

static void destroy(bp_backend* backend) {
  free(backend);
}

static bp_status check(bp_backend* backend, const bp_program* program,
                       const bp_check_report* report, bp_error* error) {
  (void)backend;
  return check_program(program, report, error);
}

static bp_status compile(bp_backend* backend, const bp_program* program,
                         const bp_compile_options* options, bp_executable** out, bp_error* error) {
  (void)backend;
  const bp_status status = check_program(program, NULL, error);
  return status == BP_OK ? make_executable(program, options, out, error) : status;
}

static bp_status warm_up(bp_executable* e, const bp_progress* progress, bp_error* error) {
  (void)e, (void)progress, (void)error;
  return BP_OK;
}

static bp_status collect(bp_executable* e, uint64_t ticket, bp_error* error) {
  if (!e->is_in_flight || ticket != e->last_ticket) {
    return fail(error, BP_INVALID_ARGUMENT, "no step in flight has the ticket %llu",
                (unsigned long long)ticket);
  }
  e->is_in_flight = 0;
  return BP_OK;
}

static const bp_backend_factory factory = {
    .struct_size = sizeof factory,
    .create = create,
    .destroy = destroy,
    .check = check,
    .compile = compile,
    .destroy_executable = free_executable,
    .memory = describe_memory,
    .kv_allocate = allocate_kv,
    .warm_up = warm_up,
    .submit = run_step,
    .collect = collect,
};

static const void* get_factory(const char* id) {
  return id != NULL && strcmp(id, BP_BACKEND_ID) == 0 ? &factory : NULL;
}

static const char* const kinds[] = {BP_BACKEND_ID};
static const bp_plugin plugin = {.struct_size = sizeof plugin,
                                 .abi_major = BP_ABI_MAJOR,
                                 .abi_minor = BP_ABI_MINOR,
                                 .n_kinds = 1,
                                 .id = "plain-c",
                                 .version = "1.0.0",
                                 .kinds = kinds,
                                 .get_factory = get_factory};

const bp_plugin* bp_plugin_query(uint32_t host_abi_major) {
  return host_abi_major == BP_ABI_MAJOR ? &plugin : NULL;
}

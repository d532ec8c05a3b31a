/* A file that begins with "KEPT" and holds one float behind that. */
#include <stdio.h>
#include <stdlib.h>

#include "backplane/format.h"
#include "kept.h"

enum { kMagicBytes = 4, kMostPath = 1024 };

struct impl {
  char path[kMostPath];
  const char* files[1];
  bp_tensor tensor;
};

static uint32_t probe(const char* path, uint32_t is_folder, const uint8_t* head, uint64_t n_head) {
  (void)path;
  return !is_folder && n_head >= kMagicBytes && memcmp(head, "KEPT", kMagicBytes) == 0 ? 100 : 0;
}

static bp_status open_model(const bp_host* host, const char* path, bp_model_file** out,
                            bp_error* error) {
  (void)host;
  if (strlen(path) >= kMostPath) return fail(BP_UNSUPPORTED, "the path is too long", error);
  FILE* file = fopen(path, "rb");
  if (file == NULL) return fail(BP_IO_ERROR, "the file cannot be read", error);
  const int is_short = fseek(file, 0, SEEK_END) != 0 || ftell(file) < 2 * kMagicBytes;
  fclose(file);
  if (is_short) return fail(BP_INVALID_ARGUMENT, "the file is cut short", error);
  bp_model_file* made = calloc(1, sizeof *made);
  struct impl* impl = calloc(1, sizeof *impl);
  if (made == NULL || impl == NULL) {
    free(made), free(impl);
    return fail(BP_OUT_OF_MEMORY, "no memory", error);
  }
  strcpy(impl->path, path);
  impl->files[0] = impl->path;
  impl->tensor.name.data = "value";
  impl->tensor.name.size = 5;
  impl->tensor.dtype = BP_DTYPE_F32;
  impl->tensor.n_dims = 1;
  impl->tensor.dims[0] = 1;
  impl->tensor.row_stride_bytes = impl->tensor.n_bytes = sizeof(float);
  impl->tensor.offset = kMagicBytes;
  made->struct_size = sizeof *made;
  made->n_files = 1;
  made->dialect = "kept";
  made->files = impl->files;
  made->n_tensors = 1;
  made->tensors = &impl->tensor;
  made->impl = impl;
  *out = made;
  return BP_OK;
}

static void close_model(bp_model_file* model) {
  free(model->impl);
  free(model);
}

static const bp_format factory = {sizeof factory, 0, probe, open_model, close_model, NULL};
KEPT_PLUGIN("kept-format", BP_FORMAT_ID, factory)

/* backplane/format.h: "bp.format/1", a reader of model files.
 *
 *  1. probe answers from a path and the first bytes; open reads the headers; the core maps or reads the
 *     tensor bytes itself from (file, offset, n_bytes). Where mapping is impossible (compressed or
 *     converted tensors) a tensor has offset BP_NO_OFFSET and `read` fetches its rows.
 *  2. A format checks everything about the bytes (bounds, overlaps, types, text encodings) and nothing
 *     about their meaning: whether a model has the tensors of its architecture is the core's business.
 *  3. No assertion or abort on file content: every failure names the file, the offset, the rule and
 *     the value.
 *  4. Everything a bp_model_file points to lives until close.
 */
#ifndef BACKPLANE_FORMAT_H_
#define BACKPLANE_FORMAT_H_

#include "backplane/dtype.h"
#include "backplane/host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_FORMAT_ID "bp.format/1"
#define BP_NO_OFFSET UINT64_MAX /* lies in no file as it is: `read` fetches it */
#define BP_MAX_DIMS 4u /* of a tensor */

/* Types of metadata values. Arrays: `data` points to n elements of the C type in brackets. */
#define BP_META_U64 1u    /* [uint64_t]; every unsigned width of the file */
#define BP_META_I64 2u    /* [int64_t]; every signed width of the file */
#define BP_META_F64 3u    /* [double]; every float width of the file */
#define BP_META_BOOL 4u   /* [uint8_t], 0 or 1 */
#define BP_META_STRING 5u /* [bp_str], UTF-8 unless the format says otherwise */

/* One metadata value; a scalar is an array of one with is_array 0. Frozen. */
typedef struct bp_metadata {
  bp_str key;    /* as in the file */
  uint32_t type; /* BP_META_* */
  uint32_t is_array; /* 0 or 1 */
  uint64_t n;        /* values */
  const void* data;  /* [n] of the C type of `type` */
} bp_metadata;

/* One tensor. Frozen. */
typedef struct bp_tensor {
  bp_str name; /* as in the file */
  bp_dtype dtype;  /* of its values */
  uint32_t n_dims; /* 1 to BP_MAX_DIMS */
  uint64_t dims[BP_MAX_DIMS]; /* outermost first: a weight of `linear` is [out, in] */
  uint64_t row_stride_bytes;  /* bytes from one row (innermost dimension) to the next */
  uint32_t file;              /* index into files */
  uint32_t reserved;
  uint64_t offset;  /* of the first byte in the file, or BP_NO_OFFSET */
  uint64_t n_bytes; /* contiguous from offset */
} bp_tensor;

/* An open model. Growable. */
typedef struct bp_model_file {
  uint32_t struct_size;
  uint32_t n_files;
  const char* dialect;       /* how names are to be read: "gguf", "huggingface", ... */
  const char* const* files;  /* [n_files] absolute paths */
  uint64_t n_metadata;
  const bp_metadata* metadata; /* [n_metadata], keys unique */
  uint64_t n_tensors;
  const bp_tensor* tensors; /* [n_tensors], names unique */
  void* impl;               /* the plugin's own */
} bp_model_file;

/* The factory. Growable. */
typedef struct bp_format {
  uint32_t struct_size;
  uint32_t reserved;

  /* Confidence 0 (cannot read) to 100 (certain, by magic number). path is absolute; head is the first
   * n_head (up to 4096) bytes of a file, or empty for a folder. Pure. [any-thread] */
  uint32_t (*probe)(const char* path, uint32_t is_folder, const uint8_t* head, uint64_t n_head);

  /* Reads headers and fills *out. BP_IO_ERROR when the file cannot be read, BP_INVALID_ARGUMENT when
   * its content breaks a rule, BP_UNSUPPORTED for a valid version or type this plugin lacks.
   * [any-thread] */
  bp_status (*open)(const bp_host* host, const char* path, bp_model_file** out, bp_error* error);

  /* Frees the model and all it points to. [any-thread] */
  void (*close)(bp_model_file* model);

  /* Optional, may be NULL: rows [first_row, first_row + n_rows) of a tensor, rows packed without gaps,
   * in the tensor's dtype, to destination. [any-thread] */
  bp_status (*read)(bp_model_file* model, uint64_t tensor, uint64_t first_row, uint64_t n_rows,
                    void* destination, bp_error* error);
} bp_format;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_FORMAT_H_ */

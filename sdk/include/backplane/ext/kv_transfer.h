/* backplane/ext/kv_transfer.h: backend extension "bp.kv-transfer/1", KV blocks to host memory.
 *
 *  1. The image of a block is a bp_kv_image_header, then the KV slots of its group in ascending
 *     order, of each K, then V: rows [block_size, n_kv_heads], positions outermost, no gaps.
 *  2. A row is head_dim elements of the header's k_dtype or v_dtype, as dtype.h says; of types in
 *     blocks whole ones with their scales, elements after the last are 0.
 *  3. Rows are what attention reads: k and v as the op that writes the slot got them, so after
 *     position encoding and the program's own norms, rounded to the cache's type. Where a backend
 *     turns keys before it rounds them, they stay turned, and k_basis says so.
 *  4. The group after the KV groups is that of the state slots (backend.h, convention 6): after the
 *     header follow the slots in ascending order, floats of one entry, little-endian, as the op's
 *     comment lists them: short_conv [kernel - 1, width], oldest row first; gated_delta
 *     [n_heads, key_dim, value_dim].
 *  5. Zeros fill an image up to a multiple of 64 bytes. Numbers are little-endian. Images need no
 *     alignment. Positions that no token was written to hold anything.
 *  6. An image fits a cache whose own images have the same header; every other one is refused. It
 *     says nothing of weights: who keeps it beyond the executable's life keeps the content key too.
 *  7. A transfer comes after the steps submitted before it and before those submitted later, and is
 *     done when it returns. It may be called while steps are in flight.
 */
#ifndef BACKPLANE_EXT_KV_TRANSFER_H_
#define BACKPLANE_EXT_KV_TRANSFER_H_

#include "backplane/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_KV_TRANSFER_ID "bp.kv-transfer/1"

#define BP_KV_IMAGE_MAGIC 0x564b5042u /* "BPKV" */
#define BP_KV_IMAGE_VERSION 1u /* of the layout that conventions 1 to 5 describe */
#define BP_KV_BASIS_PLAIN 0u /* keys as the program has them; other numbers are a backend's own */

/* What an image begins with, 64 bytes. Frozen. */
typedef struct bp_kv_image_header {
  uint32_t magic;       /* BP_KV_IMAGE_MAGIC */
  uint32_t version;     /* BP_KV_IMAGE_VERSION */
  uint64_t image_bytes; /* header and fill included */
  uint32_t group;       /* as in kv_allocate */
  uint32_t n_slots;     /* of the group */
  uint32_t block_size;  /* positions; 0 in an image of states */
  bp_dtype k_dtype;     /* of rows of K; F32 in an image of states */
  bp_dtype v_dtype;     /* of rows of V; F32 in an image of states */
  uint32_t k_basis;     /* BP_KV_BASIS_PLAIN, or how keys were turned before they were rounded */
  uint64_t shape; /* FNV-1a, 64 bits, over the bytes of n_kv_heads, k_head_dim and v_head_dim
                     (uint32_t) of each slot; of state slots over n_floats (uint64_t) */
  uint64_t reserved[2]; /* 0 */
} bp_kv_image_header;

/* Filled by prepare. Growable. */
typedef struct bp_kv_image_info {
  uint32_t struct_size;
  uint32_t n_groups;       /* as in bp_memory_info; entries of image_bytes written */
  uint64_t image_bytes[8]; /* of one block, or entry, of each group */
} bp_kv_image_info;

/* The extension. Growable. All functions are required. */
typedef struct bp_kv_transfer {
  uint32_t struct_size;
  uint32_t reserved;

  /* Once, after compile and before kv_allocate: takes the memory that transfers need beside the
   * host's (memory counts it from then on) and says how large images are. BP_UNSUPPORTED where the
   * cache has no image. [control] */
  bp_status (*prepare)(bp_executable* executable, bp_kv_image_info* out, bp_error* error);

  /* The images of blocks[n_blocks] of a group to `images`, one after another; images_bytes is
   * n_blocks times image_bytes. The cache stays as it is. INVALID_ARGUMENT for an id that is not in
   * 1 .. n - 1, before kv_allocate, or for another number of bytes. [step] */
  bp_status (*export_blocks)(bp_executable* executable, uint32_t group, const int32_t* blocks,
                             uint32_t n_blocks, void* images, uint64_t images_bytes,
                             bp_error* error);

  /* The reverse. INVALID_ARGUMENT likewise, for a block that stands twice, and for an image that
   * does not fit (convention 6), with a sentence that says why; then no block has changed. After
   * another error these blocks hold anything, and no other one has changed. [step] */
  bp_status (*import_blocks)(bp_executable* executable, uint32_t group, const int32_t* blocks,
                             uint32_t n_blocks, const void* images, uint64_t images_bytes,
                             bp_error* error);
} bp_kv_transfer;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_EXT_KV_TRANSFER_H_ */

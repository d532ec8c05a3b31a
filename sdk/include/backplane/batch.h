/* backplane/batch.h: one step's work, as flat host arrays.
 *
 *  1. Tokens of all sequences stand one after another; prefill chunks and decodes mix freely. Sequence
 *     s owns tokens [query_start[s], query_start[s+1]).
 *  2. block_ops are done first, in order, before any token is computed.
 *  3. Position p of sequence s lives in block block_table[p / block_size], slot p % block_size. Block 0
 *     is the null block: never written by a valid token, readable, its content meaningless.
 *  4. A sequence's state goes in at entry state_in (0: zeros) and out at entry state_out of every state
 *     slot. No two sequences have one state_out, and none has another's state_in; state_out may be
 *     the sequence's own state_in where the loss of it by a step that fails is acceptable.
 *  5. greatest[r] of an output is given as -1. A backend that comes to know it may write the lowest
 *     index of the greatest value of row r, where all values of the row are numbers below +infinity
 *     and that one is above -infinity.
 *  6. All memory is the host's and stays valid and unchanged (but for stop_seq) until collect.
 */
#ifndef BACKPLANE_BATCH_H_
#define BACKPLANE_BATCH_H_

#include "backplane/dtype.h"
#include "backplane/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_BLOCK_CLEAR 0u /* destination becomes zeros */
#define BP_BLOCK_COPY 1u  /* destination becomes a copy of source */
#define BP_BLOCK_OF_GROUP 0u /* indices are blocks of KV group `index`, in all its slots */
#define BP_BLOCK_OF_STATE 1u /* indices are entries of state slot `index` */

/* Work on blocks before the step. Frozen. */
typedef struct bp_block_op {
  uint32_t action; /* BP_BLOCK_CLEAR or BP_BLOCK_COPY */
  uint32_t space;  /* BP_BLOCK_OF_* */
  uint32_t index;  /* of the KV group or state slot */
  int32_t source;  /* block or entry; not read by BP_BLOCK_CLEAR */
  int32_t destination; /* block or entry, never the null block */
} bp_block_op;

/* The block tables of one KV group. Frozen. */
typedef struct bp_block_table {
  const int32_t* blocks; /* [n_seqs, stride]; entries past a sequence's context are 0 */
  uint32_t stride;       /* entries from a sequence to the next */
  uint32_t reserved;
} bp_block_table;

struct bp_sampling; /* backplane/ext/device_sampling.h */

/* Bits of bp_output.required. Only backends that offer "bp.device-sampling/1" know it. */
#define BP_OUTPUT_SAMPLING 1u /* sampling */

/* Rows wanted of one program output. Growable. */
typedef struct bp_output {
  uint32_t struct_size;
  uint32_t output; /* program output index */
  uint64_t required; /* BP_OUTPUT_* */
  uint32_t n_rows;
  bp_dtype dtype;           /* F32 */
  const uint32_t* rows;     /* [n_rows] token indices of the batch, ascending */
  void* data;               /* [n_rows, width], written by the step, complete after collect */
  uint64_t row_stride_bytes; /* from a row of data to the next */
  const struct bp_sampling* sampling; /* what is chosen from each row; NULL: nothing */
  int32_t* greatest; /* [n_rows] index of each row's greatest value (convention 5); may be NULL */
} bp_output;

/* What became of a sequence in a step. */
#define BP_SEQ_OK 0
#define BP_SEQ_STOPPED 1 /* skipped because of stop_seq; its outputs are not written */
#define BP_SEQ_FAILED 2  /* its own data made it fail; its outputs are not written */

/* One step. Growable. */
typedef struct bp_batch {
  uint32_t struct_size;
  uint32_t n_tokens;
  uint64_t required; /* no bits defined */
  uint32_t n_seqs;
  uint32_t n_block_ops;
  uint32_t n_groups;
  uint32_t n_outputs;
  const bp_block_op* block_ops;  /* [n_block_ops] */
  const int32_t* tokens;         /* [n_tokens] ids; -1-r: what the step before chose from row r, by
                                    "bp.device-sampling/1" */
  const int32_t* positions;      /* [n_tokens], ascending by 1 within a sequence */
  const uint32_t* query_start;   /* [n_seqs + 1] */
  const uint32_t* context_len;   /* [n_seqs] tokens in the cache after this step */
  const bp_block_table* block_tables; /* [n_groups] */
  const int32_t* state_in;       /* [n_seqs] entry read (convention 4); NULL without state slots */
  const int32_t* state_out;      /* [n_seqs] entry written, never 0; likewise */
  const uint32_t* stop_seq;      /* [n_seqs] nonzero: stop; the host may write while the step runs, the
                                    backend polls it between ops; may be NULL */
  const bp_output* const* outputs; /* [n_outputs] */
  int32_t* seq_status;           /* [n_seqs] BP_SEQ_*, written by the step */
} bp_batch;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_BATCH_H_ */

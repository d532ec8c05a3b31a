/* backplane/ext/device_sampling.h: backend extension "bp.device-sampling/1", draws by the backend.
 *
 *  1. Tokens are chosen where the logits are, so that rows of these need not reach the host. A
 *     batch asks by bp_output.sampling, with BP_OUTPUT_SAMPLING set: a request and a result for
 *     each row of a program output. Results are the host's memory and complete after collect;
 *     those of sequences whose status is not BP_SEQ_OK are not written. Requests stay as they are
 *     until then.
 *  2. The row itself is written to bp_output.data only where its request has BP_ROW_LOGITS. data may
 *     be NULL where no row has it.
 *  3. Candidates come best first: by logit, ties by ascending id. A logit of -inf is no candidate.
 *  4. A draw keeps the candidates that are among the top_k best and whose logit is at least the
 *     greatest one plus `floor`. Of what is kept, in order (of convention 3 with a top_k, else by
 *     ascending id), a candidate has the weight e^((logit - greatest) * scale); drawn is the first
 *     with which the sum of weights exceeds `uniform` times their total, or the last one of weight
 *     above 0 where rounding leaves the sum short of that.
 *  5. The uniform number is the host's, so that the text is the same whichever side draws, up to
 *     rounding: sums are float32 or better, and a `uniform` within 1e-4 of where two candidates meet
 *     may give either.
 *  6. A NaN or +inf in a row is no error: the result says BP_ROW_NO_NUMBERS.
 *  7. Where takes_chosen is 1, an id of -1-r in bp_batch.tokens stands for the token that the step
 *     submitted before chose from row r, counted over the rows of that step's outputs with
 *     BP_OUTPUT_SAMPLING in their order. With a max_in_flight above 1 that step need not have been
 *     collected. Submit gives INVALID_ARGUMENT where there is no such row or nothing was to be chosen
 *     from it. Where no token came of it (its sequence was not BP_SEQ_OK, all its logits -inf, or no
 *     numbers), the outputs of the sequence that names it mean nothing and its status may be any;
 *     other sequences are not affected. Elsewhere such ids fail their sequence as unknown ones do.
 */
#ifndef BACKPLANE_EXT_DEVICE_SAMPLING_H_
#define BACKPLANE_EXT_DEVICE_SAMPLING_H_

#include "backplane/backend.h"
#include "backplane/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_DEVICE_SAMPLING_ID "bp.device-sampling/1"

#define BP_ROW_LOGITS 1u /* in a request's flags: the row is written to bp_output.data */

#define BP_CHOOSE_NONE 0u /* no token */
#define BP_CHOOSE_BEST 1u /* the lowest id among the greatest logits */
#define BP_CHOOSE_DRAW 2u /* by convention 4 */

/* What is wanted of a row. Frozen. */
typedef struct bp_row_request {
  uint32_t flags;           /* BP_ROW_LOGITS or 0 */
  uint32_t choice;          /* BP_CHOOSE_* */
  int32_t token;            /* whose logit is wanted besides; -1: of none */
  uint32_t n_candidates;    /* the best ones wanted, at most max_candidates */
  bp_candidate* candidates; /* [n_candidates] written by the step */
  uint32_t top_k;           /* 0: all; at most max_candidates */
  float floor;              /* at most 0; -inf drops none */
  float scale;              /* the inverse of the temperature, above 0 and finite */
  uint32_t reserved;
  double uniform; /* in [0, 1) */
} bp_row_request;

#define BP_ROW_NO_NUMBERS 1u /* in a result's flags: NaN or +inf among the logits; nothing else of the
                                result means anything */

/* What became of a row. Frozen. */
typedef struct bp_row_result {
  int32_t token;         /* chosen; -1: none was asked for, or all logits are -inf */
  float token_logit;     /* of the token chosen, as in the row; -inf without one */
  float given_logit;     /* of the request's token; -inf without one */
  uint32_t n_candidates; /* written: as many as wanted, or all that there are */
  double log_sum;        /* log of the sum of e^logit over the row, within 1e-5 + 1e-6 of its size; -inf
                            where all logits are */
  uint32_t flags;        /* BP_ROW_NO_NUMBERS or 0 */
  uint32_t reserved;
} bp_row_result;

/* The rows of one output. Growable. */
typedef struct bp_sampling {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t required;              /* no bits defined */
  const bp_row_request* requests; /* [n_rows of the output] */
  bp_row_result* results;         /* [n_rows of the output] written by the step */
} bp_sampling;

/* The extension. Growable. Submit gives INVALID_ARGUMENT for a request beyond its limits. */
typedef struct bp_device_sampling {
  uint32_t struct_size;
  uint32_t max_candidates; /* of a row; at least 64 */
  uint32_t takes_chosen;   /* 1: ids of the step before are taken by convention 7 */
  uint32_t reserved;
} bp_device_sampling;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_EXT_DEVICE_SAMPLING_H_ */

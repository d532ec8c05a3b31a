/* backplane/dtype.h: element types of weights and values.
 *
 *  1. A type packs block_elements values into block_bytes bytes; plain types have one element a block.
 *  2. Numbers and names never change and are never reused. 0 is no type.
 *  3. The bytes of a block are those of the file format that brought the type: F* and I* are
 *     little-endian; Q*, IQ*, TQ*, MXFP4 and NVFP4 are the block types of GGUF.
 *  4. Rows are whole numbers of blocks: the innermost dimension is divisible by block_elements.
 */
#ifndef BACKPLANE_DTYPE_H_
#define BACKPLANE_DTYPE_H_

#include <stdint.h>

typedef uint32_t bp_dtype; /* BP_DTYPE_* */

#define BP_DTYPE_NONE 0u /* no type; where a choice is offered: the other side's */
#define BP_DTYPE_F32 1u
#define BP_DTYPE_F16 2u
#define BP_DTYPE_BF16 3u
#define BP_DTYPE_F64 4u
#define BP_DTYPE_F8_E4M3 5u
#define BP_DTYPE_F8_E5M2 6u
#define BP_DTYPE_I8 7u
#define BP_DTYPE_U8 8u
#define BP_DTYPE_I16 9u
#define BP_DTYPE_I32 10u
#define BP_DTYPE_I64 11u
#define BP_DTYPE_Q4_0 12u
#define BP_DTYPE_Q4_1 13u
#define BP_DTYPE_Q5_0 14u
#define BP_DTYPE_Q5_1 15u
#define BP_DTYPE_Q8_0 16u
#define BP_DTYPE_Q8_1 17u
#define BP_DTYPE_Q2_K 18u
#define BP_DTYPE_Q3_K 19u
#define BP_DTYPE_Q4_K 20u
#define BP_DTYPE_Q5_K 21u
#define BP_DTYPE_Q6_K 22u
#define BP_DTYPE_Q8_K 23u
#define BP_DTYPE_IQ2_XXS 24u
#define BP_DTYPE_IQ2_XS 25u
#define BP_DTYPE_IQ3_XXS 26u
#define BP_DTYPE_IQ1_S 27u
#define BP_DTYPE_IQ4_NL 28u
#define BP_DTYPE_IQ3_S 29u
#define BP_DTYPE_IQ2_S 30u
#define BP_DTYPE_IQ4_XS 31u
#define BP_DTYPE_IQ1_M 32u
#define BP_DTYPE_TQ1_0 33u
#define BP_DTYPE_TQ2_0 34u
#define BP_DTYPE_MXFP4 35u
#define BP_DTYPE_NVFP4 36u
#define BP_DTYPE_Q1_0 37u
#define BP_DTYPE_Q2_0 38u
#define BP_DTYPE_COUNT 39u /* one more than the highest number of this version */

/* X(NAME, "name", block_elements, block_bytes), in the order of the numbers. */
#define BP_DTYPE_LIST(X) \
  X(F32, "f32", 1, 4) \
  X(F16, "f16", 1, 2) \
  X(BF16, "bf16", 1, 2) \
  X(F64, "f64", 1, 8) \
  X(F8_E4M3, "f8_e4m3", 1, 1) \
  X(F8_E5M2, "f8_e5m2", 1, 1) \
  X(I8, "i8", 1, 1) \
  X(U8, "u8", 1, 1) \
  X(I16, "i16", 1, 2) \
  X(I32, "i32", 1, 4) \
  X(I64, "i64", 1, 8) \
  X(Q4_0, "q4_0", 32, 18) \
  X(Q4_1, "q4_1", 32, 20) \
  X(Q5_0, "q5_0", 32, 22) \
  X(Q5_1, "q5_1", 32, 24) \
  X(Q8_0, "q8_0", 32, 34) \
  X(Q8_1, "q8_1", 32, 36) \
  X(Q2_K, "q2_K", 256, 84) \
  X(Q3_K, "q3_K", 256, 110) \
  X(Q4_K, "q4_K", 256, 144) \
  X(Q5_K, "q5_K", 256, 176) \
  X(Q6_K, "q6_K", 256, 210) \
  X(Q8_K, "q8_K", 256, 292) \
  X(IQ2_XXS, "iq2_xxs", 256, 66) \
  X(IQ2_XS, "iq2_xs", 256, 74) \
  X(IQ3_XXS, "iq3_xxs", 256, 98) \
  X(IQ1_S, "iq1_s", 256, 50) \
  X(IQ4_NL, "iq4_nl", 32, 18) \
  X(IQ3_S, "iq3_s", 256, 110) \
  X(IQ2_S, "iq2_s", 256, 82) \
  X(IQ4_XS, "iq4_xs", 256, 136) \
  X(IQ1_M, "iq1_m", 256, 56) \
  X(TQ1_0, "tq1_0", 256, 54) \
  X(TQ2_0, "tq2_0", 256, 66) \
  X(MXFP4, "mxfp4", 32, 17) \
  X(NVFP4, "nvfp4", 64, 36) \
  X(Q1_0, "q1_0", 128, 18) \
  X(Q2_0, "q2_0", 64, 18)

#endif /* BACKPLANE_DTYPE_H_ */

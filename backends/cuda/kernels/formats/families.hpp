#pragma once
// The types that weights may have, by what their kernels are.

// X(NAME): floats of 8 and 16 bits, and of 32 too.
#define BP_CUDA_SMALL_FLOAT_FORMATS(X) X(F16) X(BF16) X(F8_E4M3) X(F8_E5M2)
#define BP_CUDA_PLAIN_FORMATS(X) X(F32) BP_CUDA_SMALL_FLOAT_FORMATS(X)

// X(NAME): blocks in planes, multiplied as signed bytes. In two lists, so that two files share the
// time of compiling their kernels.
#define BP_CUDA_PACKED_FORMATS_A(X) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(MXFP4)
#define BP_CUDA_PACKED_FORMATS_B(X) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_XS)
#define BP_CUDA_PACKED_FORMATS(X) BP_CUDA_PACKED_FORMATS_A(X) BP_CUDA_PACKED_FORMATS_B(X)

// X(NAME): all others, widened to floats.
#define BP_CUDA_OTHER_FORMATS(X)                                                              \
  X(Q8_1)                                                                                     \
  X(Q8_K)                                                                                     \
  X(IQ2_XXS)                                                                                  \
  X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M) X(NVFP4) X(TQ1_0) X(TQ2_0) X(Q1_0) \
      X(Q2_0)

#define BP_CUDA_FORMATS(X) \
  BP_CUDA_PLAIN_FORMATS(X) \
  BP_CUDA_PACKED_FORMATS(X) BP_CUDA_OTHER_FORMATS(X)

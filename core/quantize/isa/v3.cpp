#include "core/quantize/codebook_kernels.hpp"

#define BP_KERNELS kCodebookKernels_v3
#include "core/quantize/codebook_kernels.inc"

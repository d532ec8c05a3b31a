#include "core/quantize/codebook_kernels.hpp"

#define BP_KERNELS kCodebookKernels_v4
#include "core/quantize/codebook_kernels.inc"

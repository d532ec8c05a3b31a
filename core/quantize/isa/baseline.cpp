#include "core/quantize/codebook_kernels.hpp"

#define BP_KERNELS kCodebookKernels_baseline
#include "core/quantize/codebook_kernels.inc"

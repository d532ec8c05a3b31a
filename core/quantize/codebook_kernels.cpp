#include "core/quantize/codebook_kernels.hpp"

namespace bp::quantize {

extern const CodebookKernels kCodebookKernels_baseline;
#ifdef BP_X86_LEVELS
extern const CodebookKernels kCodebookKernels_v3;
extern const CodebookKernels kCodebookKernels_v4;
#endif

const CodebookKernels& codebook_kernels() {
#ifdef BP_X86_LEVELS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return kCodebookKernels_v4;
  }
  if (__builtin_cpu_supports("avx2")) return kCodebookKernels_v3;
#endif
  return kCodebookKernels_baseline;
}

}  // namespace bp::quantize

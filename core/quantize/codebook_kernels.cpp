#include "core/quantize/codebook_kernels.hpp"

namespace bp::quantize {

extern const CodebookKernels kCodebookKernels_baseline;
#ifdef BP_X86_LEVELS
extern const CodebookKernels kCodebookKernels_v3;
extern const CodebookKernels kCodebookKernels_v4;
#endif

namespace {

// Of the list below.
size_t n_usable() {
#ifdef BP_X86_LEVELS
  if (!__builtin_cpu_supports("avx2")) return 1;
  const bool has_v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has_v4 ? 3 : 2;
#else
  return 1;
#endif
}

}  // namespace

std::span<const CodebookKernels* const> usable_codebook_kernels() {
  static constexpr const CodebookKernels* kAll[] = {
      &kCodebookKernels_baseline,
#ifdef BP_X86_LEVELS
      &kCodebookKernels_v3,
      &kCodebookKernels_v4,
#endif
  };
  return std::span(kAll).first(n_usable());
}

}  // namespace bp::quantize

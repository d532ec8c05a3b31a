#include "backends/cpu/cpu_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <string>

namespace bp::cpu {

#define BP_CPU_DECLARE(isa)                     \
  namespace isa {                               \
  void set_strip_kernels(Kernels& kernels);     \
  void set_float_kernels(Kernels& kernels);     \
  void set_row_kernels(Kernels& kernels);       \
  void set_attention_kernels(Kernels& kernels); \
  }
BP_CPU_DECLARE(scalar)
#if defined(__x86_64__)
BP_CPU_DECLARE(avx2)
BP_CPU_DECLARE(avx512)
#endif
#undef BP_CPU_DECLARE

namespace {

#define BP_CPU_TABLE(isa)                \
  [] {                                   \
    Kernels kernels{};                   \
    kernels.name = #isa;                 \
    isa::set_strip_kernels(kernels);     \
    isa::set_float_kernels(kernels);     \
    isa::set_row_kernels(kernels);       \
    isa::set_attention_kernels(kernels); \
    return kernels;                      \
  }()

constexpr std::string_view kNames[] = {"scalar", "avx2", "avx512"};

#if defined(__x86_64__)
// clang 14 does not know "f16c".
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
// The compiler's check includes that the operating system keeps the wide registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

std::string_view isa_name(Isa isa) {
  return kNames[static_cast<int>(isa)];
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas = {Isa::kScalar};
#if defined(__x86_64__)
  if (has_avx2()) isas.push_back(Isa::kAvx2);
  if (has_avx512()) isas.push_back(Isa::kAvx512);
#endif
  return isas;
}

Result<Isa> choose_isa(std::string_view name) {
  const std::vector<Isa> isas = available_isas();
  if (name == "auto") return isas.back();
  const auto found = std::ranges::find(isas, name, isa_name);
  if (found != isas.end()) return *found;
  const bool known = std::ranges::find(kNames, name) != std::end(kNames);
  std::string has;
  for (Isa isa : isas) has += (has.empty() ? "" : ", ") + std::string(isa_name(isa));
  if (!known) {
    return invalid_argument("isa: '" + std::string(name) + "' is not auto, scalar, avx2 or avx512");
  }
  return unsupported("isa: this processor does not run the " + std::string(name) +
                     " kernels; it runs " + has);
}

const Kernels& kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) {
    static const Kernels kAvx512 = BP_CPU_TABLE(avx512);
    return kAvx512;
  }
  if (isa == Isa::kAvx2) {
    static const Kernels kAvx2 = BP_CPU_TABLE(avx2);
    return kAvx2;
  }
#endif
  (void)isa;
  static const Kernels kScalar = BP_CPU_TABLE(scalar);
  return kScalar;
}

}  // namespace bp::cpu

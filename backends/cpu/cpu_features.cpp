#include "backends/cpu/cpu_features.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <string>

namespace bp::cpu {

#define BP_CPU_DECLARE(isa)                                    \
  namespace isa {                                              \
  void set_strip_kernels(Kernels& kernels, Tuning tuning);     \
  void set_float_kernels(Kernels& kernels);                    \
  void set_row_kernels(Kernels& kernels);                      \
  void set_attention_kernels(Kernels& kernels, Tuning tuning); \
  }
BP_CPU_DECLARE(scalar)
#if defined(__aarch64__)
BP_CPU_DECLARE(neon)
#endif
#if defined(__x86_64__)
BP_CPU_DECLARE(avx2)
BP_CPU_DECLARE(avx512)
namespace avx2_vnni {
void set_strip_kernels(Kernels& kernels, Tuning tuning);
void set_attention_kernels(Kernels& kernels, Tuning tuning);
}  // namespace avx2_vnni
namespace avx512_bf16 {
void set_bf16_kernels(Kernels& kernels, Tuning tuning);
void set_attention_kernels(Kernels& kernels, Tuning tuning);
}  // namespace avx512_bf16
namespace amx {
void set_tile_kernels(Kernels& kernels);
void set_bf16_kernels(Kernels& kernels);
void set_attention_kernels(Kernels& kernels);
}  // namespace amx
#endif
#undef BP_CPU_DECLARE

namespace {

#define BP_CPU_SET(isa, kernels, tuning)     \
  (kernels).name = #isa;                     \
  isa::set_strip_kernels((kernels), tuning); \
  isa::set_float_kernels((kernels));         \
  isa::set_row_kernels((kernels));           \
  isa::set_attention_kernels((kernels), tuning)

constexpr std::string_view kNames[] = {"scalar", "neon",        "avx2", "avx2_vnni",
                                       "avx512", "avx512_bf16", "amx"};

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
// Of the first page of extended features.
bool has_extended(unsigned eax_bit) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & 1u << eax_bit) != 0;
}
bool has_avx2_vnni() {
  return has_avx2() && has_extended(4);
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}
// Of processors with these products just Cooper Lake lacks shuffles of 64 bytes.
bool has_avx512_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512vbmi") && has_extended(5);
}
#if defined(BP_CPU_EMULATED_TILES)  // by a test, which replaces the instructions
bool has_tiles() {
  return true;
}
#else
// Linux gives the tiles' state to a process that asks for it, and to its threads from then on.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
bool has_tiles() {
  constexpr unsigned kNeeded = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tiles, int8
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kNeeded) == kNeeded &&
         may_use_tiles();
}
#endif
bool has_amx() {
  return has_avx512_bf16() && has_tiles();
}
#endif

Tuning processor_tuning() {
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel")) return Tuning::kIntel;
  if (__builtin_cpu_is("amdfam19h")) return Tuning::kZen4;
#endif
  return Tuning::kZen5;
}

#if defined(__aarch64__)
bool has_neon_dot_products() {
#if defined(__linux__)
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return true;  // every other system that runs on AArch64 asks for them
#endif
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
  if (has_avx2_vnni()) isas.push_back(Isa::kAvx2Vnni);
  if (has_avx512()) isas.push_back(Isa::kAvx512);
  if (has_avx512_bf16()) isas.push_back(Isa::kAvx512Bf16);
  if (has_amx()) isas.push_back(Isa::kAmx);
#endif
#if defined(__aarch64__)
  if (has_neon_dot_products()) isas.push_back(Isa::kNeon);
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
    std::string all = "auto";
    for (const std::string_view one : kNames) all += ", " + std::string(one);
    return invalid_argument("isa: '" + std::string(name) + "' is none of " + all);
  }
  return unsupported("isa: this processor does not run the " + std::string(name) +
                     " kernels; it runs " + has);
}

Kernels make_kernels(Isa isa, Tuning tuning) {
  Kernels kernels{};
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAmx:
      kernels = make_kernels(Isa::kAvx512Bf16, tuning);
      kernels.name = "amx";
      amx::set_tile_kernels(kernels);
      amx::set_bf16_kernels(kernels);
      amx::set_attention_kernels(kernels);
      return kernels;
    case Isa::kAvx512Bf16:
      kernels = make_kernels(Isa::kAvx512, tuning);
      kernels.name = "avx512_bf16";
      avx512_bf16::set_bf16_kernels(kernels, tuning);
      avx512_bf16::set_attention_kernels(kernels, tuning);
      return kernels;
    case Isa::kAvx512:
      BP_CPU_SET(avx512, kernels, tuning);
      return kernels;
    case Isa::kAvx2Vnni:
      kernels = make_kernels(Isa::kAvx2, tuning);
      kernels.name = "avx2_vnni";
      avx2_vnni::set_strip_kernels(kernels, tuning);
      avx2_vnni::set_attention_kernels(kernels, tuning);
      return kernels;
    case Isa::kAvx2:
      BP_CPU_SET(avx2, kernels, tuning);
      return kernels;
#endif
#if defined(__aarch64__)
    case Isa::kNeon:
      BP_CPU_SET(neon, kernels, tuning);
      return kernels;
#endif
    default:
      BP_CPU_SET(scalar, kernels, tuning);
      return kernels;
  }
}

const Kernels& kernels_of(Isa isa) {
  static const std::vector<Kernels> kTables = [] {
    std::vector<Kernels> tables(std::size(kNames));
    for (const Isa one : available_isas()) {
      tables[static_cast<size_t>(one)] = make_kernels(one, processor_tuning());
    }
    return tables;
  }();
  return kTables[static_cast<size_t>(isa)];
}

}  // namespace bp::cpu

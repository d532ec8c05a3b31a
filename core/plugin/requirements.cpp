#include "core/plugin/requirements.hpp"

#include <dlfcn.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "core/plugin/compatibility.hpp"

namespace bp::plugin {

namespace {

using CpuTest = bool (*)();

#if defined(__x86_64__)
// clang 14 does not know these by name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx512_bf16() {
  constexpr unsigned kBf16 = 1u << 5;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx512f") &&
         __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kBf16) != 0;
}

#define BP_CPU(name)                                       \
  {                                                        \
    name, [] { return __builtin_cpu_supports(name) != 0; } \
  }
const std::map<std::string, CpuTest>& cpu_features() {
  static const std::map<std::string, CpuTest> features = {
      BP_CPU("sse4.2"),     BP_CPU("avx"),
      BP_CPU("avx2"),       BP_CPU("fma"),
      BP_CPU("avx512f"),    BP_CPU("avx512bw"),
      BP_CPU("avx512vl"),   BP_CPU("avx512dq"),
      BP_CPU("bmi2"),       BP_CPU("popcnt"),
      BP_CPU("avx512vnni"), BP_CPU("avx512vbmi"),
      {"f16c", has_f16c},   {"avx512bf16", has_avx512_bf16},
  };
  return features;
}
#undef BP_CPU
constexpr const char* kArchitecture = "x86-64";
#else
const std::map<std::string, CpuTest>& cpu_features() {
  static const std::map<std::string, CpuTest> features;
  return features;
}
constexpr const char* kArchitecture = "this processor";
#endif

std::string missing_cpu_feature(const std::string& feature) {
  const auto found = cpu_features().find(feature);
  if (found == cpu_features().end()) {
    return fmt::format("it needs the CPU feature '{}', which is not known on {}", feature,
                       kArchitecture);
  }
  if (found->second()) return {};
  return fmt::format("it needs the CPU feature '{}', which this machine lacks", feature);
}

// Finding a system library runs none of the plugin's code.
bool has_library(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

}  // namespace

std::string why_unusable(const Manifest& manifest) {
  const AbiVersion built_for{manifest.abi_major, manifest.abi_minor};
  if (std::string why = why_incompatible(built_for, {BP_ABI_MAJOR, BP_ABI_MINOR}); !why.empty()) {
    return why;
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(manifest.library, ignored)) {
    return fmt::format("its library {} is missing", manifest.library);
  }
  for (const std::string& feature : manifest.required_cpu) {
    if (std::string why = missing_cpu_feature(feature); !why.empty()) return why;
  }
  for (const std::string& library : manifest.required_libraries) {
    if (!has_library(library)) {
      return fmt::format("it needs the library {}, which is not installed", library);
    }
  }
  return {};
}

}  // namespace bp::plugin

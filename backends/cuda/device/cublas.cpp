#include "backends/cuda/device/cublas.hpp"

#include <dlfcn.h>

#include <optional>
#include <string>

namespace bp::cuda {

namespace {

std::optional<CublasFunctions> load() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return std::nullopt;
  CublasFunctions found;
#define BP_CUBLAS_FIND(name)                                                             \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, "cublasLt" #name)); \
  if (found.name == nullptr) return std::nullopt;
  BP_CUBLAS_FUNCTIONS(BP_CUBLAS_FIND)
#undef BP_CUBLAS_FIND
  return found;
}

}  // namespace

const CublasFunctions* find_cublas() {
  static const std::optional<CublasFunctions> functions = load();
  return functions ? &*functions : nullptr;
}

Status cublas_status(cublasStatus_t status, const std::string& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const std::string message = call + " failed with status " + std::to_string(status);
  return status == CUBLAS_STATUS_ALLOC_FAILED ? out_of_memory(message) : internal_error(message);
}

}  // namespace bp::cuda

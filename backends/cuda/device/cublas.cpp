#include "backends/cuda/device/cublas.hpp"

#include <dlfcn.h>

#include <string>

#include "backends/cuda/device/device_error.hpp"

namespace bp::cuda {

namespace {

Result<CublasFunctions> load() {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return unsupported(file + " is not found");
  CublasFunctions found;
#define BP_CUBLAS_FIND(name)                                                             \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, "cublasLt" #name)); \
  if (found.name == nullptr) return unsupported(file + " has no cublasLt" #name);
  BP_CUBLAS_FUNCTIONS(BP_CUBLAS_FIND)
#undef BP_CUBLAS_FIND
  return found;
}

}  // namespace

Result<std::unique_ptr<Cublas>> Cublas::open() {
  BP_ASSIGN(const CublasFunctions functions, load());
  auto cublas = std::make_unique<Cublas>(functions);
  BP_TRY(cublas->status(functions.Create(&cublas->handle_), "cublasLtCreate"));
  return cublas;
}

Cublas::~Cublas() {
  if (handle_ != nullptr) static_cast<void>(functions_.Destroy(handle_));
}

Status Cublas::status(cublasStatus_t status, const char* call, const Status& of_device) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return library_error(call, functions_.GetStatusName(status), of_device);
}

}  // namespace bp::cuda

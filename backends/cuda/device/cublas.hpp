#pragma once
// cuBLASLt, loaded when it is there: nothing of it is linked.

#include <cublasLt.h>

#include <memory>

#include "backplane/status.hpp"

namespace bp::cuda {

// The functions that are used, by their own names.
struct CublasFunctions {
#define BP_CUBLAS_FUNCTIONS(X)                                                                     \
  X(Create)                                                                                        \
  X(Destroy)                                                                                       \
  X(MatmulDescCreate)                                                                              \
  X(MatmulDescDestroy)                                                                             \
  X(MatmulDescSetAttribute) X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatmulPreferenceCreate) \
      X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic)         \
          X(Matmul) X(GetStatusName)
#define BP_CUBLAS_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
  BP_CUBLAS_FUNCTIONS(BP_CUBLAS_MEMBER)
#undef BP_CUBLAS_MEMBER
};

// The library, which stays loaded, and its handle for the device that was current.
class Cublas {
 public:
  static Result<std::unique_ptr<Cublas>> open();
  explicit Cublas(const CublasFunctions& functions) : functions_(functions) {}
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  [[nodiscard]] const CublasFunctions& functions() const { return functions_; }
  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }  // [any-thread]
  // library_error by the status's name, or OK.
  [[nodiscard]] Status status(cublasStatus_t status, const char* call,
                              const Status& of_device = {}) const;

 private:
  CublasFunctions functions_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace bp::cuda

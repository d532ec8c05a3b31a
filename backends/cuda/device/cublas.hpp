#pragma once
// cuBLASLt, loaded when it is there: nothing of it is linked.

#include <cublasLt.h>

#include "backplane/status.hpp"

namespace bp::cuda {

// The functions that are used, by their own names.
struct CublasFunctions {
#define BP_CUBLAS_FUNCTIONS(X)                                                                 \
  X(Create)                                                                                    \
  X(Destroy) X(MatmulDescCreate) X(MatmulDescDestroy) X(MatmulDescSetAttribute)                \
      X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatmulPreferenceCreate)                   \
          X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) \
              X(Matmul)
#define BP_CUBLAS_MEMBER(name) decltype(&cublasLt##name) name = nullptr;
  BP_CUBLAS_FUNCTIONS(BP_CUBLAS_MEMBER)
#undef BP_CUBLAS_MEMBER
};

// Null where the library is not found. It stays loaded.
[[nodiscard]] const CublasFunctions* find_cublas();

[[nodiscard]] Status cublas_status(cublasStatus_t status, const std::string& call);

}  // namespace bp::cuda

// What the device can do: copying device memory, and bf16 products of the 8B shapes by cuBLASLt.

#include <cuda_runtime.h>
#ifndef WITHOUT_CUBLASLT
#include <cublasLt.h>
#include <cuda_bf16.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

template <class T>
void check(T status, const char* what) {
  if (status == T{}) return;
  std::fprintf(stderr, "ceilings: %s failed with %d\n", what, static_cast<int>(status));
  std::exit(1);
}

// Median milliseconds of a call.
template <class F>
float median_ms(F&& call) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = 0; i < 23; ++i) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    call();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (i >= 3) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void measure_copy() {
  constexpr size_t kBytes = size_t{4} << 30;
  void *from = nullptr, *to = nullptr;
  check(cudaMalloc(&from, kBytes), "cudaMalloc");
  check(cudaMalloc(&to, kBytes), "cudaMalloc");
  check(cudaMemset(from, 0, kBytes), "cudaMemset");
  const float ms = median_ms([&] {
    check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice), "cudaMemcpyAsync");
  });
  std::printf("copy: %.0f GB/s (read and written)\n", 2.0 * kBytes * 1e-6 / ms);
  cudaFree(from), cudaFree(to);
}

#ifndef WITHOUT_CUBLASLT
// y [m, n] = x [m, k] w [n, k]^T
void measure_product(cublasLtHandle_t handle, int m, int n, int k) {
  __nv_bfloat16 *x, *w, *y;
  void* workspace;
  constexpr size_t kWorkspace = 64 << 20;
  check(cudaMalloc(&x, sizeof(*x) * m * k), "cudaMalloc");
  check(cudaMalloc(&w, sizeof(*w) * n * k), "cudaMalloc");
  check(cudaMalloc(&y, sizeof(*y) * m * n), "cudaMalloc");
  check(cudaMalloc(&workspace, kWorkspace), "cudaMalloc");
  check(cudaMemset(x, 0x3c, sizeof(*x) * m * k), "cudaMemset");
  check(cudaMemset(w, 0x3c, sizeof(*w) * n * k), "cudaMemset");
  cublasLtMatmulDesc_t op;
  check(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof transposed),
        "cublasLtMatmulDescSetAttribute");
  cublasLtMatrixLayout_t of_w, of_x, of_y;
  check(cublasLtMatrixLayoutCreate(&of_w, CUDA_R_16BF, k, n, k), "cublasLtMatrixLayoutCreate");
  check(cublasLtMatrixLayoutCreate(&of_x, CUDA_R_16BF, k, m, k), "cublasLtMatrixLayoutCreate");
  check(cublasLtMatrixLayoutCreate(&of_y, CUDA_R_16BF, n, m, n), "cublasLtMatrixLayoutCreate");
  cublasLtMatmulPreference_t preference;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const size_t limit = kWorkspace;
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &limit, sizeof limit),
        "cublasLtMatmulPreferenceSetAttribute");
  cublasLtMatmulHeuristicResult_t best{};
  int n_found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle, op, of_w, of_x, of_y, of_y, preference, 1, &best,
                                       &n_found),
        "cublasLtMatmulAlgoGetHeuristic");
  const float one = 1, zero = 0;
  const float ms = median_ms([&] {
    check(cublasLtMatmul(handle, op, &one, w, of_w, x, of_x, &zero, y, of_y, y, of_y, &best.algo,
                         workspace, kWorkspace, nullptr),
          "cublasLtMatmul");
  });
  std::printf("bf16 product m %d n %d k %d: %.3f ms, %.0f TFLOPS\n", m, n, k, ms,
              2e-9 * m * n * k / ms);
  cudaFree(x), cudaFree(w), cudaFree(y), cudaFree(workspace);
}

void measure_products() {
  cublasLtHandle_t handle;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  for (const int m : {1, 16, 256, 512, 2048, 4096}) {
    measure_product(handle, m, 6144, 4096);
    measure_product(handle, m, 4096, 4096);
    measure_product(handle, m, 28672, 4096);
    measure_product(handle, m, 4096, 14336);
  }
}
#else
void measure_products() {
  std::printf("products: built without cuBLASLt\n");
}
#endif

}  // namespace

int main() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%s, %d multiprocessors\n", properties.name, properties.multiProcessorCount);
  measure_copy();
  measure_products();
  return 0;
}

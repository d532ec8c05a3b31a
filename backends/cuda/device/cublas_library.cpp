#include "backends/cuda/device/cublas_library.hpp"

#define BP_CUBLAS(name, ...) BP_TRY(cublas_status(lt_.name(__VA_ARGS__), "cublasLt" #name))

namespace bp::cuda {

namespace {

constexpr size_t kWorkspaceBytes = 32 << 20;
constexpr size_t kMostChosen = 4096;
constexpr uint32_t kAlignment = 16;  // of rows of weights, which products may begin at

}  // namespace

Result<std::unique_ptr<MatrixLibrary>> CublasLibrary::open(const CublasFunctions& functions,
                                                           Device& device, cudaStream_t stream) {
  BP_ASSIGN(Memory workspace,
            device.allocate(MemoryKind::kDevice, kWorkspaceBytes, "the workspace of cuBLASLt"));
  auto library = std::make_unique<CublasLibrary>(functions, stream, std::move(workspace));
  BP_TRY(cublas_status(functions.Create(&library->handle_), "cublasLtCreate"));
  BP_TRY(cublas_status(
      functions.MatmulDescCreate(&library->description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescCreate"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  BP_TRY(cublas_status(
      functions.MatmulDescSetAttribute(library->description_, CUBLASLT_MATMUL_DESC_TRANSA,
                                       &transposed, sizeof transposed),
      "cublasLtMatmulDescSetAttribute"));
  return std::unique_ptr<MatrixLibrary>(std::move(library));
}

void CublasLibrary::release(const Chosen& chosen) {
  for (const auto layout : {chosen.w, chosen.x, chosen.y}) {
    if (layout != nullptr) static_cast<void>(lt_.MatrixLayoutDestroy(layout));
  }
}

CublasLibrary::~CublasLibrary() {
  for (const auto& [key, chosen] : chosen_) release(chosen);
  if (description_ != nullptr) static_cast<void>(lt_.MatmulDescDestroy(description_));
  if (handle_ != nullptr) static_cast<void>(lt_.Destroy(handle_));
}

Status CublasLibrary::find_algorithm(Chosen& chosen) {
  cublasLtMatmulPreference_t preference = nullptr;
  BP_CUBLAS(MatmulPreferenceCreate, &preference);
  const size_t limit = workspace_.size();
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublas_status(
        lt_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  Status status = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limit);
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    if (status.ok()) status = set(alignment, kAlignment);
  }
  cublasLtMatmulHeuristicResult_t best{};
  int n_found = 0;
  if (status.ok()) {
    status = cublas_status(
        lt_.MatmulAlgoGetHeuristic(handle_, description_, chosen.w, chosen.x, chosen.y, chosen.y,
                                   preference, 1, &best, &n_found),
        "cublasLtMatmulAlgoGetHeuristic");
  }
  static_cast<void>(lt_.MatmulPreferenceDestroy(preference));
  BP_TRY(status);
  if (n_found == 0) return internal_error("cuBLASLt has no algorithm for a product");
  chosen.algorithm = best.algo;
  return {};
}

Result<const CublasLibrary::Chosen*> CublasLibrary::choose(const LibraryProduct& p) {
  const Key key{p.dtype, p.n_rows, p.n_columns, p.n_in, p.y_stride, p.w_row_bytes, p.x_row_bytes};
  const auto known = chosen_.find(key);
  if (known != chosen_.end()) return &known->second;
  if (chosen_.size() >= kMostChosen) {
    release(chosen_.begin()->second);
    chosen_.erase(chosen_.begin());
  }
  const cudaDataType_t type = p.dtype == BP_DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
  const auto elements = [](uint64_t n_bytes) { return static_cast<int64_t>(n_bytes / 2); };
  Chosen& chosen = chosen_[key];
  Status status = [&]() -> Status {
    BP_CUBLAS(MatrixLayoutCreate, &chosen.w, type, p.n_in, p.n_columns, elements(p.w_row_bytes));
    BP_CUBLAS(MatrixLayoutCreate, &chosen.x, type, p.n_in, p.n_rows, elements(p.x_row_bytes));
    BP_CUBLAS(MatrixLayoutCreate, &chosen.y, CUDA_R_32F, p.n_columns, p.n_rows, p.y_stride);
    return find_algorithm(chosen);
  }();
  if (status.ok()) return &chosen;
  release(chosen);
  chosen_.erase(key);
  return status;
}

Status CublasLibrary::multiply(const LibraryProduct& p) {
  BP_ASSIGN(const Chosen* chosen, choose(p));
  const float one = 1, zero = 0;
  BP_CUBLAS(Matmul, handle_, description_, &one, p.w, chosen->w, p.x, chosen->x, &zero, p.y,
            chosen->y, p.y, chosen->y, &chosen->algorithm, workspace_.data(), workspace_.size(),
            stream_);
  return {};
}

}  // namespace bp::cuda

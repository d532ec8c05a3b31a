#include "backends/cuda/device/cublas_library.hpp"

#include "backends/cuda/device/cuda_status.hpp"
#include "backends/cuda/kernels/formats/planes.hpp"

#define BP_CUBLAS(name, ...) BP_TRY(cublas_.status(lt_.name(__VA_ARGS__), "cublasLt" #name))

namespace bp::cuda {

namespace {

constexpr size_t kWorkspaceBytes = 32 << 20;
constexpr size_t kMostChosen = 4096;
constexpr uint32_t kAlignment = 16;  // of rows of weights, which products may begin at

cudaDataType_t type_of(bp_dtype dtype) {
  switch (dtype) {
    case BP_DTYPE_F8_E4M3:
      return CUDA_R_8F_E4M3;
    case BP_DTYPE_F8_E5M2:
      return CUDA_R_8F_E5M2;
    case BP_DTYPE_F16:
      return CUDA_R_16F;
    default:
      return CUDA_R_16BF;
  }
}

// Whether earlier work has failed, which a call of the library does not say. A stream that is being
// captured may be asked this and nothing more.
Status state_of_device(cudaStream_t stream) {
  cudaStreamCaptureStatus capture{};
  cudaError_t error = cudaStreamIsCapturing(stream, &capture);
  if (error == cudaSuccess && capture == cudaStreamCaptureStatusNone) {
    error = cudaStreamQuery(stream);
  }
  if (error == cudaErrorNotReady) error = cudaSuccess;
  return cuda_status(error, "work before it");
}

}  // namespace

Result<std::unique_ptr<MatrixLibrary>> CublasLibrary::open(const Cublas& cublas, Device& device,
                                                           cudaStream_t stream) {
  Result<Memory> workspace =
      device.allocate(MemoryKind::kDevice, kWorkspaceBytes, "the workspace of cuBLASLt");
  if (!workspace.ok()) {
    if (workspace.status().code() != Code::kOutOfMemory) return workspace.status();
    workspace = Memory();
  }
  BP_ASSIGN(auto library, make(cublas, stream, std::move(workspace).value()));
  return std::unique_ptr<MatrixLibrary>(std::move(library));
}

Result<std::unique_ptr<CublasLibrary>> CublasLibrary::make(const Cublas& cublas,
                                                           cudaStream_t stream, Memory workspace) {
  auto library = std::make_unique<CublasLibrary>(cublas, stream, std::move(workspace));
  const CublasFunctions& functions = cublas.functions();
  BP_TRY(cublas.status(
      functions.MatmulDescCreate(&library->description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescCreate"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  BP_TRY(cublas.status(
      functions.MatmulDescSetAttribute(library->description_, CUBLASLT_MATMUL_DESC_TRANSA,
                                       &transposed, sizeof transposed),
      "cublasLtMatmulDescSetAttribute"));
  return library;
}

bool CublasLibrary::knows_fp8(const Cublas& cublas) {
  const Result<std::unique_ptr<CublasLibrary>> library = make(cublas, nullptr, Memory());
  if (!library.ok()) return false;
  (*library)->most_workspace_ = kWorkspaceBytes;
  LibraryProduct usual;
  usual.dtype = BP_DTYPE_F8_E4M3;
  usual.n_rows = 64;
  usual.n_in = usual.n_columns = usual.y_stride = 4096;
  usual.w_row_bytes = usual.x_row_bytes = 4096;
  const Result<Chosen*> chosen = (*library)->choose(usual);
  return chosen.ok() && chosen.value()->algorithm.has_value();
}

void CublasLibrary::release(Chosen& chosen) {
  for (const auto layout : {chosen.w, chosen.x, chosen.y}) {
    if (layout != nullptr) static_cast<void>(lt_.MatrixLayoutDestroy(layout));
  }
  chosen = {};
}

void CublasLibrary::make_room() {
  while (oldest_first_.size() >= kMostChosen) {
    const auto oldest = chosen_.find(oldest_first_.front());
    if (oldest != chosen_.end()) {
      release(oldest->second);
      chosen_.erase(oldest);
    }
    oldest_first_.pop_front();
  }
}

CublasLibrary::~CublasLibrary() {
  for (auto& [key, chosen] : chosen_) release(chosen);
  if (description_ != nullptr) static_cast<void>(lt_.MatmulDescDestroy(description_));
}

Status CublasLibrary::find_algorithm(Chosen& chosen) {
  cublasLtMatmulPreference_t preference = nullptr;
  BP_CUBLAS(MatmulPreferenceCreate, &preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return cublas_.status(
        lt_.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
  };
  Status status = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_);
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    if (status.ok()) status = set(alignment, kAlignment);
  }
  cublasLtMatmulHeuristicResult_t best{};
  int n_found = 0;
  if (status.ok()) {
    const cublasStatus_t answer =
        lt_.MatmulAlgoGetHeuristic(cublas_.handle(), description_, chosen.w, chosen.x, chosen.y,
                                   chosen.y, preference, 1, &best, &n_found);
    if (answer != CUBLAS_STATUS_NOT_SUPPORTED) {
      status = cublas_.status(answer, "cublasLtMatmulAlgoGetHeuristic");
    }
  }
  static_cast<void>(lt_.MatmulPreferenceDestroy(preference));
  BP_TRY(status);
  if (n_found > 0 && best.state == CUBLAS_STATUS_SUCCESS) chosen.algorithm = best.algo;
  return {};
}

Result<CublasLibrary::Chosen*> CublasLibrary::choose(const LibraryProduct& p) {
  const Key key{p.dtype, p.n_rows, p.n_columns, p.n_in, p.y_stride, p.w_row_bytes, p.x_row_bytes};
  const auto known = chosen_.find(key);
  if (known != chosen_.end() && known->second.is_done) return &known->second;
  const bool in_bytes = is_fp8(p.dtype);
  const cudaDataType_t w_type = type_of(p.dtype), x_type = in_bytes ? CUDA_R_8F_E4M3 : w_type;
  const auto elements = [=](uint64_t n_bytes) {
    return static_cast<int64_t>(in_bytes ? n_bytes : n_bytes / 2);
  };
  // It has its place before anything is made that would have to be given back.
  if (known == chosen_.end()) {
    make_room();
    oldest_first_.push_back(key);
  }
  Chosen& chosen = chosen_[key];
  release(chosen);
  const Status status = [&]() -> Status {
    BP_CUBLAS(MatrixLayoutCreate, &chosen.w, w_type, p.n_in, p.n_columns, elements(p.w_row_bytes));
    BP_CUBLAS(MatrixLayoutCreate, &chosen.x, x_type, p.n_in, p.n_rows, elements(p.x_row_bytes));
    BP_CUBLAS(MatrixLayoutCreate, &chosen.y, CUDA_R_32F, p.n_columns, p.n_rows, p.y_stride);
    return find_algorithm(chosen);
  }();
  if (!status.ok()) {
    release(chosen);
    return status;
  }
  chosen.is_done = true;
  return &chosen;
}

Status CublasLibrary::multiply(const LibraryProduct& p) {
  BP_ASSIGN(Chosen* const chosen, choose(p));
  if (!chosen->algorithm) return unsupported("cuBLASLt has no algorithm for the product");
  const float one = 1, zero = 0;
  const cublasStatus_t answer = lt_.Matmul(
      cublas_.handle(), description_, &one, p.w, chosen->w, p.x, chosen->x, &zero, p.y, chosen->y,
      p.y, chosen->y, &*chosen->algorithm, workspace_.data(), workspace_.size(), stream_);
  if (answer == CUBLAS_STATUS_SUCCESS) return {};
  const Status status = cublas_.status(answer, "cublasLtMatmul", state_of_device(stream_));
  if (status.code() == Code::kUnsupported) chosen->algorithm.reset();
  return status;
}

}  // namespace bp::cuda

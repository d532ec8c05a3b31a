#include "backends/cuda/device/cuda_device.hpp"

#include <csignal>
#include <mutex>

#include "backends/cuda/device/cublas_library.hpp"
#include "backends/cuda/device/cuda_status.hpp"
#include "backends/cuda/device/cuda_stream.hpp"
#include "backends/cuda/device/open_device.hpp"

namespace bp::cuda {

namespace {

// Threads that the driver starts inherit the mask: signals are for the host's.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

Result<int> count_devices() {
  int n = 0;
  const cudaError_t error = cudaGetDeviceCount(&n);
  if (error == cudaErrorInsufficientDriver) {
    return unsupported("the NVIDIA driver is missing or too old for CUDA " +
                       std::to_string(CUDART_VERSION / 1000) + "." +
                       std::to_string(CUDART_VERSION % 1000 / 10));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && n == 0)) {
    return unsupported("there is no NVIDIA GPU that this process may use");
  }
  BP_TRY(cuda_status(error, "cudaGetDeviceCount"));
  return n;
}

constexpr uint32_t kSharedBytesOfAnyLaunch = 48 << 10;
constexpr uint32_t kMinCapability = 80;         // of the kernels
constexpr uint32_t kMinFp8Capability = 89;      // of cuBLASLt's products of 8-bit floats
constexpr uint32_t kMinOverlapCapability = 90;  // of launches that begin early

}  // namespace

Result<std::unique_ptr<Device>> open_device(const Params& params) {
  BP_ASSIGN(const DeviceChoices choices, read_choices(params));
  return CudaDevice::open(static_cast<int>(params.get_int("device", 0)), choices);
}

Result<std::unique_ptr<Device>> CudaDevice::open(int index, const DeviceChoices& choices) {
  const BlockedSignals blocked;
  BP_ASSIGN(const int n, count_devices());
  if (index < 0 || index >= n) {
    return invalid_argument("device is " + std::to_string(index) + ", there are devices 0 to " +
                            std::to_string(n - 1));
  }
  cudaDeviceProp properties{};
  BP_CUDA(cudaGetDeviceProperties(&properties, index));
  DeviceInfo info;
  info.name = properties.name;
  info.compute_capability = static_cast<uint32_t>(properties.major * 10 + properties.minor);
  info.n_multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount);
  info.shared_bytes_per_block = static_cast<uint32_t>(properties.sharedMemPerBlockOptin);
  info.total_bytes = properties.totalGlobalMem;
  info.shares_host_memory = properties.integrated != 0;
  if (info.compute_capability < kMinCapability) {
    return unsupported(info.name + " has compute capability " + std::to_string(properties.major) +
                       "." + std::to_string(properties.minor) + ", 8.0 or higher is needed");
  }
  info.has_byte_tiles = choices.byte_tiles;
  info.has_fp8_products = choices.fp8_products && choices.matrix_library &&
                          info.compute_capability >= kMinFp8Capability;
  const bool overlaps_launches =
      choices.overlaps_launches && info.compute_capability >= kMinOverlapCapability;
  auto device = std::make_unique<CudaDevice>(index, std::move(info), overlaps_launches);
  BP_TRY(device->make_current());
  BP_CUDA(cudaFree(nullptr));  // makes the context
  if (choices.matrix_library) device->open_cublas();
  return std::unique_ptr<Device>(std::move(device));
}

void CudaDevice::open_cublas() {
  Result<std::unique_ptr<Cublas>> cublas = Cublas::open();
  info_.has_matrix_library = cublas.ok();
  if (cublas.ok()) {
    cublas_ = std::move(cublas).value();
    info_.has_fp8_products = info_.has_fp8_products && CublasLibrary::knows_fp8(*cublas_);
  } else {
    info_.library_failure = cublas.status().message();
  }
}

Status CudaDevice::make_current() const {
  BP_CUDA(cudaSetDevice(index_));
  return {};
}

Status CudaDevice::status_of(cudaError_t error, const char* call, const char* name) {
  const Status status = cuda_status(error, call, name);
  if (status.code() != Code::kOutOfMemory) return status;
  const Result<uint64_t> free = free_bytes();
  return free.ok() ? with_free_bytes(status, info_, free.value()) : status;
}

Status CudaDevice::allow_shared_memory(const Launch& launch) {
  const uint32_t wanted = launch.geometry.shared_bytes;
  if (wanted <= kSharedBytesOfAnyLaunch) return {};
  // Limits belong to the GPU's one context, which all devices of its index share.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto* kernel = reinterpret_cast<const void*>(launch.function);
  uint32_t& allowed = shared_bytes_[kernel];
  if (allowed >= wanted) return {};
  constexpr const char* kWhat = "shared memory for kernel ";
  cudaFuncAttributes attributes{};
  BP_TRY(cuda_status(cudaFuncGetAttributes(&attributes, kernel), kWhat, launch.name));
  if (attributes.maxDynamicSharedSizeBytes < static_cast<int>(wanted)) {
    BP_TRY(cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(wanted)),
                       kWhat, launch.name));
  }
  allowed = wanted;
  return {};
}

// Asking for a kernel's attributes loads its code where that is put off (CUDA_MODULE_LOADING).
Status CudaDevice::load(const Launch& launch) {
  BP_TRY(make_current());
  cudaFuncAttributes attributes{};
  BP_TRY(
      status_of(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(launch.function)),
                "loading kernel ", launch.name));
  return allow_shared_memory(launch);
}

Result<uint64_t> CudaDevice::free_bytes() {
  BP_TRY(make_current());
  size_t free = 0, total = 0;
  BP_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

Result<Memory> CudaDevice::allocate(MemoryKind kind, size_t n_bytes, const std::string& purpose) {
  if (n_bytes == 0) return Memory();
  BP_TRY(make_current());
  void* data = nullptr;
  const cudaError_t error = kind == MemoryKind::kDevice
                                ? cudaMalloc(&data, n_bytes)
                                : cudaHostAlloc(&data, n_bytes, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    const bool is_pinned = kind == MemoryKind::kPinned;
    BP_ASSIGN(const uint64_t free, is_pinned ? Result<uint64_t>(free_host_bytes()) : free_bytes());
    return does_not_fit(info_, kind, n_bytes, free, purpose);
  }
  BP_TRY(cuda_status(error, kind == MemoryKind::kDevice ? "cudaMalloc" : "cudaHostAlloc"));
  return Memory(*this, kind, static_cast<uint8_t*>(data), n_bytes);
}

// A failure here has been or will be told by another call.
void CudaDevice::release(MemoryKind kind, uint8_t* data, size_t) {
  if (cudaSetDevice(index_) == cudaSuccess) {
    static_cast<void>(kind == MemoryKind::kDevice ? cudaFree(data) : cudaFreeHost(data));
  }
  static_cast<void>(cudaGetLastError());
}

Result<std::unique_ptr<Stream>> CudaDevice::make_stream() {
  return CudaStream::open(*this);
}

Result<std::unique_ptr<MatrixLibrary>> CudaDevice::make_matrix_library(Stream& stream) {
  const BlockedSignals blocked;
  BP_TRY(make_current());
  return CublasLibrary::open(*cublas_, *this, static_cast<CudaStream&>(stream).get());
}

Result<std::unique_ptr<Event>> CudaDevice::make_event() {
  return CudaEvent::open(*this);
}

Result<std::unique_ptr<Timer>> CudaDevice::make_timer() {
  return CudaTimer::open(*this);
}

}  // namespace bp::cuda

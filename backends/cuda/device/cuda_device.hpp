#pragma once
// The device by the CUDA runtime.

#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "backends/cuda/device/cublas.hpp"
#include "backends/cuda/device/device.hpp"
#include "backends/cuda/device/open_device.hpp"

namespace bp::cuda {

class CudaDevice : public Device {
 public:
  // Device `index` of those that the process sees.
  static Result<std::unique_ptr<Device>> open(int index, const DeviceChoices& choices);
  CudaDevice(int index, DeviceInfo info, bool overlaps_launches)
      : index_(index), info_(std::move(info)), overlaps_launches_(overlaps_launches) {}

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  Result<uint64_t> free_bytes() override;
  Result<Memory> allocate(MemoryKind kind, size_t n_bytes, const std::string& purpose) override;
  Result<std::unique_ptr<Stream>> make_stream() override;
  Result<std::unique_ptr<Event>> make_event() override;
  Result<std::unique_ptr<Timer>> make_timer() override;
  Status load(const Launch& launch) override;
  Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(Stream& stream) override;

  // The runtime keeps one current device per host thread, and steps move between threads.
  [[nodiscard]] Status make_current() const;
  // cuda_status, and what is free where the call is out of memory.
  [[nodiscard]] Status status_of(cudaError_t error, const char* call, const char* name = "");
  // Before a launch of that much shared memory on the current device. A limit is never lowered.
  [[nodiscard]] Status allow_shared_memory(const Launch& launch);
  // Whether launches may begin before those in front of them have ended.
  [[nodiscard]] bool overlaps_launches() const { return overlaps_launches_; }

 private:
  void open_cublas();
  void release(MemoryKind kind, uint8_t* data, size_t n_bytes) override;

  int index_;
  DeviceInfo info_;
  bool overlaps_launches_;
  std::map<const void*, uint32_t> shared_bytes_;  // that kernels may have at least
  std::unique_ptr<Cublas> cublas_;                // null where the info has no library
};

}  // namespace bp::cuda

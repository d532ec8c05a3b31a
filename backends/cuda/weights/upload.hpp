#pragma once
// Brings rows to the device through two pinned buffers: one is filled while the other is copied.

#include <array>
#include <memory>

#include "backends/cuda/weights/device_weight.hpp"
#include "backplane/backend.hpp"

namespace bp::cuda {

class Upload {
 public:
  // total_bytes is what progress counts towards.
  Upload(Device& device, const Progress& progress, uint64_t total_bytes)
      : device_(device), progress_(progress), total_bytes_(total_bytes) {}

  Status open();
  // CANCELLED where progress asks to stop. `to` stays until close.
  Status add(const SourceRows& rows, uint8_t* to);
  // Waits until everything is there.
  Status close();
  ~Upload();

 private:
  struct Buffer {
    Memory memory;
    std::unique_ptr<Event> is_copied;
  };
  Status flush();

  Device& device_;
  const Progress& progress_;
  uint64_t total_bytes_, done_bytes_ = 0;
  std::unique_ptr<Stream> stream_;
  std::array<Buffer, 2> buffers_;
  uint32_t current_ = 0;
  uint64_t n_filled_ = 0;  // bytes of the current buffer
  uint8_t* to_ = nullptr;  // where they go
};

}  // namespace bp::cuda

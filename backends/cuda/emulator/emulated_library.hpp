#pragma once

#include "backends/cuda/device/matrix_library.hpp"
#include "backends/cuda/emulator/emulated_device.hpp"

namespace bp::cuda::emulator {

class EmulatedLibrary : public MatrixLibrary {
 public:
  explicit EmulatedLibrary(EmulatedStream& stream) : stream_(stream) {}
  Status multiply(const LibraryProduct& product) override;
  [[nodiscard]] uint64_t n_bytes() const override { return 0; }

 private:
  EmulatedStream& stream_;
};

}  // namespace bp::cuda::emulator

#pragma once
// The emulated device, with calls that are refused and work that fails.

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/device/device_error.hpp"
#include "backends/cuda/device/matrix_library.hpp"
#include "backends/cuda/emulator/emulated_device.hpp"

namespace bp::cuda {

struct Faults {
  static constexpr int kNever = 1 << 30;
  int n_left = kNever;  // calls before they are refused
  std::function<Status(const std::string& call)> refusal = [](const std::string&) {
    return internal_error("the call was refused");
  };
  Status of_work;           // of what is launched next, when somebody waits for it
  std::string refused;      // the call
  bool is_changed = false;  // host memory, between a copy's enqueuing and its work

  Status count(const std::string& call) {
    if (n_left-- > 0) return {};
    refused = call;
    return refusal(call);
  }
};

class FailingStream : public emulator::EmulatedStream {
 public:
  explicit FailingStream(Faults& faults)
      : EmulatedStream(emulator::Order::kForward), faults_(faults) {}

  using Stream::launch;
  Status launch(const Launch& launch) override {
    BP_TRY(faults_.count(std::string("kernel ") + launch.name));
    if (!faults_.of_work.ok()) {
      return add([status = std::exchange(faults_.of_work, Status())] { return status; });
    }
    return EmulatedStream::launch(launch);
  }
  Status copy_to_device(void* to, const void* from, size_t n_bytes) override {
    BP_TRY(faults_.count("copy to the device"));
    const auto* bytes = static_cast<const uint8_t*>(from);
    BP_TRY(add([&faults = faults_, bytes, given = std::vector<uint8_t>(bytes, bytes + n_bytes)] {
      faults.is_changed |= !std::equal(given.begin(), given.end(), bytes);
      return Status();
    }));
    return EmulatedStream::copy_to_device(to, from, n_bytes);
  }
  Status copy_to_host(void* to, const void* from, size_t n_bytes) override {
    BP_TRY(faults_.count("copy to the host"));
    return EmulatedStream::copy_to_host(to, from, n_bytes);
  }
  Status copy_on_device(void* to, const void* from, size_t n_bytes) override {
    BP_TRY(faults_.count("copy on the device"));
    return EmulatedStream::copy_on_device(to, from, n_bytes);
  }
  Status record(Event& event) override {
    BP_TRY(faults_.count("record"));
    return EmulatedStream::record(event);
  }
  Status run(Graph& graph) override {
    BP_TRY(faults_.count("graph"));
    return EmulatedStream::run(graph);
  }

 private:
  Faults& faults_;
};

class FailingLibrary : public MatrixLibrary {
 public:
  FailingLibrary(Faults& faults, std::unique_ptr<MatrixLibrary> library)
      : faults_(faults), library_(std::move(library)) {}
  Status multiply(const LibraryProduct& product) override {
    BP_TRY(faults_.count("product"));
    return library_->multiply(product);
  }
  [[nodiscard]] uint64_t n_bytes() const override { return library_->n_bytes(); }

 private:
  Faults& faults_;
  std::unique_ptr<MatrixLibrary> library_;
};

class FailingDevice : public emulator::EmulatedDevice {
 public:
  FailingDevice() : EmulatedDevice(emulator::EmulatedSettings()) {}
  Result<std::unique_ptr<Stream>> make_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<FailingStream>(faults));
  }
  Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(Stream& stream) override {
    BP_ASSIGN(auto library, EmulatedDevice::make_matrix_library(stream));
    return std::unique_ptr<MatrixLibrary>(
        std::make_unique<FailingLibrary>(faults, std::move(library)));
  }
  Result<Memory> allocate(MemoryKind kind, size_t n_bytes, const std::string& purpose) override {
    BP_TRY(faults.count("memory for " + purpose));
    return EmulatedDevice::allocate(kind, n_bytes, purpose);
  }
  Faults faults;
};

}  // namespace bp::cuda

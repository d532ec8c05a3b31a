#pragma once
// A device on the processor. A stream does its work when somebody waits for it, as late as a GPU
// might, so that host memory that changes too early shows.

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/emulator/block.hpp"

namespace bp::cuda::emulator {

struct EmulatedSettings {
  Order order = Order::kForward;
  uint64_t total_bytes = uint64_t{192} << 20;
  bool has_matrix_library = true;
  bool has_byte_tiles = false;
  bool has_fp8_products = false;
};

class EmulatedDevice : public Device {
 public:
  explicit EmulatedDevice(const EmulatedSettings& settings);

  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  Result<uint64_t> free_bytes() override;
  Result<Memory> allocate(MemoryKind kind, size_t n_bytes, const std::string& purpose) override;
  Result<std::unique_ptr<Stream>> make_stream() override;
  Result<std::unique_ptr<Event>> make_event() override;
  Result<std::unique_ptr<Timer>> make_timer() override;
  Status load(const Launch&) override { return {}; }
  Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(Stream& stream) override;

 private:
  void release(MemoryKind kind, uint8_t* data, size_t n_bytes) override;

  EmulatedSettings settings_;
  DeviceInfo info_;
  std::atomic<uint64_t> used_bytes_{0};
};

// A work item; its status is the stream's from then on.
using Work = std::function<Status()>;

class EmulatedStream : public Stream {
 public:
  explicit EmulatedStream(Order order) : block_(order) {}

  using Stream::launch;
  Status launch(const Launch& launch) override;
  Status copy_to_device(void* to, const void* from, size_t n_bytes) override;
  Status copy_to_host(void* to, const void* from, size_t n_bytes) override;
  Status copy_on_device(void* to, const void* from, size_t n_bytes) override;
  Status fill(void* to, uint8_t byte, size_t n_bytes) override;
  Status record(Event& event) override;
  Status wait(Event& event) override;
  Status synchronize() override;
  Status begin_capture() override;
  Result<std::unique_ptr<Graph>> end_capture() override;
  void cancel_capture() override { captured_.reset(); }
  Status run(Graph& graph) override;

  // Does the first n items that were ever added, as far as they are not done.
  Status run_until(uint64_t n_items);
  // The next one of them: what a device gets done while somebody asks.
  Status run_one_of(uint64_t n_items);
  [[nodiscard]] bool has_done(uint64_t n_items) const { return n_done_ >= n_items; }
  Status add(Work work);

 private:
  Block block_;
  std::deque<std::shared_ptr<Work>> waiting_;
  uint64_t n_added_ = 0, n_done_ = 0;
  std::unique_ptr<Graph> captured_;
  Status failure_;  // of earlier work; it stays
};

}  // namespace bp::cuda::emulator

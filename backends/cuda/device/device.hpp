#pragma once
// What the backend asks of a GPU, and no more: memory, streams of work in order, events, captured
// graphs. The CUDA runtime stands behind it in the plugin (cuda_device.cpp), an emulator that runs
// the same kernels on the processor in tests (emulator/).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "backplane/status.hpp"

namespace bp::cuda {

struct DeviceInfo {
  std::string name;
  uint32_t compute_capability = 0;  // 90 for 9.0
  uint32_t n_multiprocessors = 0;
  uint32_t shared_bytes_per_block = 0;  // that a launch may ask for
  bool has_matrix_library = false;      // see make_matrix_library
  std::string library_failure;          // why there is none, where one was wanted
  // As configured, where the device can.
  bool has_byte_tiles = false;    // steps of 9 tokens or more by quantised weights in int8
  bool has_fp8_products = false;  // steps of 64 or more by 8-bit floats, by that library
  uint64_t total_bytes = 0;
  bool shares_host_memory = false;  // it has none of its own
};

// Blocks of a grid's second dimension, and of its third; of the first there may be 2^31 - 1.
inline constexpr uint32_t kMaxGridY = 65535;

// How a kernel is spread: blocks of the grid, threads of a block (in one dimension), and bytes of
// shared memory sized at launch.
struct Geometry {
  std::array<uint32_t, 3> grid{1, 1, 1};
  uint32_t n_threads = 1;
  uint32_t shared_bytes = 0;
  [[nodiscard]] uint64_t n_blocks() const { return uint64_t{grid[0]} * grid[1] * grid[2]; }
};

// A kernel takes one struct, passed by value. Which it is, is decided by the functions that
// kernels/ exports; its name is for messages and profiles.
template <class Params>
struct Kernel {
  const char* name = nullptr;
  void (*function)(Params) = nullptr;
};

// A launch with the type of its parameters erased. `call` runs the kernel's body for the current
// thread of an emulated block; on a GPU nobody calls it.
struct Launch {
  const char* name;
  void (*function)();
  void (*call)(void (*function)(), const void* params);
  const void* params;  // read before launch returns
  size_t params_bytes;
  Geometry geometry;
};

enum class MemoryKind { kDevice, kPinned };

class Device;
class MatrixLibrary;  // matrix_library.hpp

// Device or pinned host memory, given back when destroyed. The device outlives it.
class Memory {
 public:
  Memory() = default;
  Memory(Device& device, MemoryKind kind, uint8_t* data, size_t size)
      : device_(&device), kind_(kind), data_(data), size_(size) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory(std::move(other)).swap(*this);
    return *this;
  }
  ~Memory();

  [[nodiscard]] uint8_t* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  void swap(Memory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  Device* device_ = nullptr;
  MemoryKind kind_ = MemoryKind::kDevice;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

class Stream;

class Event {
 public:
  virtual ~Event() = default;
  // Waits until what the event was recorded behind is done; at once where it never was. The thread
  // sleeps meanwhile, and may wake up late.
  virtual Status synchronize() = 0;
  // Whether synchronize would return at once.
  virtual Result<bool> is_done() = 0;
};

// How long the device takes from one point of a stream to another.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual Status begin(Stream& stream) = 0;
  virtual Status end(Stream& stream) = 0;
  // Once the stream has passed the end.
  virtual Result<double> microseconds() = 0;
};

class Graph {
 public:
  virtual ~Graph() = default;
};

// Work in order. Every call but synchronize returns before the work is done; host memory that it
// names stays as it is until then. Errors of the work itself surface in a later call.
class Stream {
 public:
  virtual ~Stream() = default;

  // Launches from now on may begin before the one in front of them has ended, where the device can:
  // kernels wait by themselves (kernels/simt.cuh).
  void let_launches_overlap(bool may) { may_overlap_ = may; }

  virtual Status launch(const Launch& launch) = 0;
  virtual Status copy_to_device(void* to, const void* from, size_t n_bytes) = 0;
  virtual Status copy_to_host(void* to, const void* from, size_t n_bytes) = 0;
  virtual Status copy_on_device(void* to, const void* from, size_t n_bytes) = 0;  // no overlap
  virtual Status fill(void* to, uint8_t byte, size_t n_bytes) = 0;

  virtual Status record(Event& event) = 0;
  virtual Status wait(Event& event) = 0;
  virtual Status synchronize() = 0;

  // Between begin and end, work is kept instead of done. A graph is run as often as wanted; it is
  // on the device already when its first run comes.
  virtual Status begin_capture() = 0;
  virtual Result<std::unique_ptr<Graph>> end_capture() = 0;
  virtual void cancel_capture() = 0;  // in place of its end; allocates nothing
  virtual Status run(Graph& graph) = 0;

  template <class Params>
  Status launch(const Kernel<Params>& kernel, const Geometry& geometry, const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= 4096);
    if (geometry.n_blocks() == 0) return {};
    return launch({kernel.name, reinterpret_cast<void (*)()>(kernel.function),
                   [](void (*function)(), const void* p) {
                     reinterpret_cast<void (*)(Params)>(function)(*static_cast<const Params*>(p));
                   },
                   &params, sizeof params, geometry});
  }

 protected:
  [[nodiscard]] bool launches_may_overlap() const { return may_overlap_; }

 private:
  bool may_overlap_ = false;
};

// [any-thread] but for what it makes: a stream belongs to one thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  virtual Result<uint64_t> free_bytes() = 0;
  // `purpose` completes "memory for" in an error. Aligned to 256 bytes.
  virtual Result<Memory> allocate(MemoryKind kind, size_t n_bytes, const std::string& purpose) = 0;
  virtual Result<std::unique_ptr<Stream>> make_stream() = 0;
  virtual Result<std::unique_ptr<Event>> make_event() = 0;
  virtual Result<std::unique_ptr<Timer>> make_timer() = 0;
  // The code of a launch's kernel, and leave for its shared memory, ahead of the first launch: that
  // would load it, and take the device memory for it, wherever it came.
  virtual Status load(const Launch& launch) = 0;
  // For that stream, which outlives it. Only where the info says that there is one.
  virtual Result<std::unique_ptr<MatrixLibrary>> make_matrix_library(Stream& stream) = 0;

 private:
  friend class Memory;
  virtual void release(MemoryKind kind, uint8_t* data, size_t n_bytes) = 0;
};

inline Memory::~Memory() {
  if (data_ != nullptr) device_->release(kind_, data_, size_);
}

// "5.20 GiB for the weights are needed, 3.10 GiB of 24.00 GiB are free on NVIDIA L4"; of pinned
// memory, what is free on the host.
[[nodiscard]] Status does_not_fit(const DeviceInfo& info, MemoryKind kind, uint64_t n_bytes,
                                  uint64_t free_bytes, const std::string& purpose);
// Where a call that says not how much it needs is out of memory: with what is free behind it.
[[nodiscard]] Status with_free_bytes(const Status& status, const DeviceInfo& info,
                                     uint64_t free_bytes);
[[nodiscard]] uint64_t free_host_bytes();

}  // namespace bp::cuda

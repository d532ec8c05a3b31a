#include "backends/cuda/emulator/emulated_device.hpp"

#include <chrono>
#include <cstring>
#include <new>
#include <vector>

#include "backends/cuda/emulator/emulated_library.hpp"

namespace bp::cuda::emulator {

namespace {

constexpr std::align_val_t kAlignment{256};
constexpr uint8_t kPoison = 0xff;

class EmulatedEvent : public Event {
 public:
  void record(EmulatedStream& stream, uint64_t n_items) {
    stream_ = &stream;
    n_items_ = n_items;
  }
  Status synchronize() override {
    return stream_ == nullptr ? Status() : stream_->run_until(n_items_);
  }
  Result<bool> is_done() override {
    if (stream_ == nullptr) return true;
    BP_TRY(stream_->run_one_of(n_items_));
    return stream_->has_done(n_items_);
  }

 private:
  EmulatedStream* stream_ = nullptr;
  uint64_t n_items_ = 0;
};

class EmulatedTimer : public Timer {
 public:
  Status begin(Stream& stream) override { return stamp(stream, begin_); }
  Status end(Stream& stream) override { return stamp(stream, end_); }
  Result<double> microseconds() override {
    return std::chrono::duration<double, std::micro>(end_ - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static Status stamp(Stream& stream, Clock::time_point& time) {
    return static_cast<EmulatedStream&>(stream).add([&time] {
      time = Clock::now();
      return Status();
    });
  }

  Clock::time_point begin_, end_;
};

class EmulatedGraph : public Graph {
 public:
  std::vector<std::shared_ptr<Work>> items;
};

}  // namespace

EmulatedDevice::EmulatedDevice(const EmulatedSettings& settings) : settings_(settings) {
  info_.name = "the emulated device";
  info_.compute_capability = 90;
  info_.n_multiprocessors = 4;
  info_.shared_bytes_per_block = 99 << 10;
  info_.has_matrix_library = settings.has_matrix_library;
  info_.has_byte_tiles = settings.has_byte_tiles;
  info_.has_fp8_products = settings.has_fp8_products;
  info_.total_bytes = settings.total_bytes;
}

Result<uint64_t> EmulatedDevice::free_bytes() {
  return settings_.total_bytes - used_bytes_.load();
}

Result<Memory> EmulatedDevice::allocate(MemoryKind kind, size_t n_bytes,
                                        const std::string& purpose) {
  if (n_bytes == 0) return Memory();
  const uint64_t left = settings_.total_bytes - used_bytes_.load();
  if (kind == MemoryKind::kDevice && n_bytes > left) {
    return does_not_fit(info_, kind, n_bytes, left, purpose);
  }
  auto* data = static_cast<uint8_t*>(::operator new(n_bytes, kAlignment, std::nothrow));
  if (data == nullptr) {
    return does_not_fit(info_, kind, n_bytes,
                        kind == MemoryKind::kDevice ? left : free_host_bytes(), purpose);
  }
  if (kind == MemoryKind::kDevice) used_bytes_ += n_bytes;
  std::memset(data, kPoison, n_bytes);
  return Memory(*this, kind, data, n_bytes);
}

void EmulatedDevice::release(MemoryKind kind, uint8_t* data, size_t n_bytes) {
  if (kind == MemoryKind::kDevice) used_bytes_ -= n_bytes;
  ::operator delete(data, kAlignment);
}

Result<std::unique_ptr<Stream>> EmulatedDevice::make_stream() {
  return std::unique_ptr<Stream>(std::make_unique<EmulatedStream>(settings_.order));
}

Result<std::unique_ptr<Event>> EmulatedDevice::make_event() {
  return std::unique_ptr<Event>(std::make_unique<EmulatedEvent>());
}

Result<std::unique_ptr<Timer>> EmulatedDevice::make_timer() {
  return std::unique_ptr<Timer>(std::make_unique<EmulatedTimer>());
}

Result<std::unique_ptr<MatrixLibrary>> EmulatedDevice::make_matrix_library(Stream& stream) {
  return std::unique_ptr<MatrixLibrary>(
      std::make_unique<EmulatedLibrary>(static_cast<EmulatedStream&>(stream)));
}

Status EmulatedStream::add(Work work) {
  auto item = std::make_shared<Work>(std::move(work));
  if (captured_ != nullptr) {
    static_cast<EmulatedGraph&>(*captured_).items.push_back(std::move(item));
    return {};
  }
  waiting_.push_back(std::move(item));
  ++n_added_;
  return failure_;
}

Status EmulatedStream::launch(const Launch& launch) {
  const auto* bytes = static_cast<const uint8_t*>(launch.params);
  return add([this, launch, params = std::vector<uint8_t>(bytes, bytes + launch.params_bytes)] {
    // Parameters hold no type stricter than a pointer.
    Launch own = launch;
    own.params = params.data();
    return block_.run(own);
  });
}

Status EmulatedStream::copy_to_device(void* to, const void* from, size_t n_bytes) {
  return EmulatedStream::copy_on_device(to, from, n_bytes);
}
Status EmulatedStream::copy_to_host(void* to, const void* from, size_t n_bytes) {
  return EmulatedStream::copy_on_device(to, from, n_bytes);
}
Status EmulatedStream::copy_on_device(void* to, const void* from, size_t n_bytes) {
  return add([=] {
    std::memcpy(to, from, n_bytes);
    return Status();
  });
}
Status EmulatedStream::fill(void* to, uint8_t byte, size_t n_bytes) {
  return add([=] {
    std::memset(to, byte, n_bytes);
    return Status();
  });
}

Status EmulatedStream::record(Event& event) {
  static_cast<EmulatedEvent&>(event).record(*this, n_added_);
  return failure_;
}
Status EmulatedStream::wait(Event& event) {
  return add(
      [recorded = static_cast<EmulatedEvent&>(event)]() mutable { return recorded.synchronize(); });
}
Status EmulatedStream::synchronize() {
  return run_until(n_added_);
}

Status EmulatedStream::run_one_of(uint64_t n_items) {
  if (has_done(n_items) || !failure_.ok()) return failure_;
  const std::shared_ptr<Work> work = std::move(waiting_.front());
  waiting_.pop_front();
  ++n_done_;
  failure_ = (*work)();
  return failure_;
}

Status EmulatedStream::run_until(uint64_t n_items) {
  while (!has_done(n_items) && failure_.ok()) static_cast<void>(run_one_of(n_items));
  return failure_;
}

Status EmulatedStream::begin_capture() {
  if (captured_ != nullptr) return internal_error("a capture has begun already");
  captured_ = std::make_unique<EmulatedGraph>();
  return {};
}
Result<std::unique_ptr<Graph>> EmulatedStream::end_capture() {
  if (captured_ == nullptr) return internal_error("no capture has begun");
  return std::move(captured_);
}
Status EmulatedStream::run(Graph& graph) {
  for (const auto& item : static_cast<EmulatedGraph&>(graph).items) {
    waiting_.push_back(item);
    ++n_added_;
  }
  return failure_;
}

}  // namespace bp::cuda::emulator

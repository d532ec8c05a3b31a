#pragma once
// A stream for those who look at a step's launches: everything else succeeds and does nothing.

#include <memory>

#include "backends/cuda/device/device.hpp"

namespace bp::cuda {

class LaunchesOnly : public Stream {
 public:
  using Stream::launch;
  Status launch(const Launch& launch) override = 0;
  Status copy_to_device(void*, const void*, size_t) override { return {}; }
  Status copy_to_host(void*, const void*, size_t) override { return {}; }
  Status copy_on_device(void*, const void*, size_t) override { return {}; }
  Status fill(void*, uint8_t, size_t) override { return {}; }
  Status record(Event&) override { return {}; }
  Status wait(Event&) override { return {}; }
  Status synchronize() override { return {}; }
  Status begin_capture() override { return {}; }
  // Nothing was captured: null.
  Result<std::unique_ptr<Graph>> end_capture() override { return std::unique_ptr<Graph>(); }
  void cancel_capture() override {}
  Status run(Graph&) override { return {}; }
};

}  // namespace bp::cuda

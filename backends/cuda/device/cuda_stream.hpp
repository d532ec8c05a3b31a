#pragma once
// Streams, events and graphs by the CUDA runtime. What owns a handle is there before the handle is.

#include <cuda_runtime_api.h>

#include <memory>

#include "backends/cuda/device/cuda_device.hpp"

namespace bp::cuda {

class CudaEvent : public Event {
 public:
  static Result<std::unique_ptr<Event>> open(const CudaDevice& device);
  explicit CudaEvent(const CudaDevice& device) : device_(device) {}
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  Status synchronize() override;
  Result<bool> is_done() override;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  const CudaDevice& device_;
  cudaEvent_t event_ = nullptr;
};

class CudaTimer : public Timer {
 public:
  static Result<std::unique_ptr<Timer>> open(const CudaDevice& device);
  explicit CudaTimer(const CudaDevice& device) : device_(device) {}
  ~CudaTimer() override;
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  Status begin(Stream& stream) override { return record(begin_, stream); }
  Status end(Stream& stream) override { return record(end_, stream); }
  Result<double> microseconds() override;

 private:
  Status record(cudaEvent_t event, Stream& stream);

  const CudaDevice& device_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

class CudaGraph : public Graph {
 public:
  CudaGraph() = default;
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  [[nodiscard]] cudaError_t instantiate(cudaGraph_t captured) {
    return cudaGraphInstantiate(&graph_, captured, 0);
  }
  [[nodiscard]] cudaGraphExec_t get() const { return graph_; }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

class CudaStream : public Stream {
 public:
  static Result<std::unique_ptr<Stream>> open(CudaDevice& device);
  explicit CudaStream(CudaDevice& device) : device_(device) {}
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

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
  void cancel_capture() override;
  Status run(Graph& graph) override;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace bp::cuda

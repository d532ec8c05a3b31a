#pragma once
// Streams, events and graphs by the CUDA runtime.

#include <cuda_runtime_api.h>

#include <memory>

#include "backends/cuda/device/cuda_device.hpp"

namespace bp::cuda {

class CudaEvent : public Event {
 public:
  static Result<std::unique_ptr<Event>> open(const CudaDevice& device);
  CudaEvent(const CudaDevice& device, cudaEvent_t event) : device_(device), event_(event) {}
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  Status synchronize() override;
  Result<bool> is_done() override;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  const CudaDevice& device_;
  cudaEvent_t event_;
};

class CudaGraph : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  [[nodiscard]] cudaGraphExec_t get() const { return graph_; }

 private:
  cudaGraphExec_t graph_;
};

class CudaStream : public Stream {
 public:
  static Result<std::unique_ptr<Stream>> open(CudaDevice& device);
  CudaStream(CudaDevice& device, cudaStream_t stream) : device_(device), stream_(stream) {}
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
  Status run(Graph& graph) override;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  CudaDevice& device_;
  cudaStream_t stream_;
};

}  // namespace bp::cuda

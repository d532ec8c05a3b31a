#include "backends/cuda/device/cuda_stream.hpp"

#include "backends/cuda/device/cuda_status.hpp"

namespace bp::cuda {

Result<std::unique_ptr<Event>> CudaEvent::open(const CudaDevice& device) {
  BP_TRY(device.make_current());
  auto event = std::make_unique<CudaEvent>(device);
  BP_CUDA(cudaEventCreateWithFlags(&event->event_, cudaEventDisableTiming | cudaEventBlockingSync));
  return std::unique_ptr<Event>(std::move(event));
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
}

Status CudaEvent::synchronize() {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaEventSynchronize(event_));
  return {};
}

Result<bool> CudaEvent::is_done() {
  BP_TRY(device_.make_current());
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) return false;
  BP_TRY(cuda_status(error, "cudaEventQuery"));
  return true;
}

Result<std::unique_ptr<Timer>> CudaTimer::open(const CudaDevice& device) {
  BP_TRY(device.make_current());
  auto timer = std::make_unique<CudaTimer>(device);
  BP_CUDA(cudaEventCreateWithFlags(&timer->begin_, cudaEventDefault));
  BP_CUDA(cudaEventCreateWithFlags(&timer->end_, cudaEventDefault));
  return std::unique_ptr<Timer>(std::move(timer));
}

CudaTimer::~CudaTimer() {
  for (const cudaEvent_t event : {begin_, end_}) {
    if (event != nullptr) static_cast<void>(cudaEventDestroy(event));
  }
}

Status CudaTimer::record(cudaEvent_t event, Stream& stream) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaEventRecord(event, static_cast<CudaStream&>(stream).get()));
  return {};
}

Result<double> CudaTimer::microseconds() {
  BP_TRY(device_.make_current());
  float milliseconds = 0;
  BP_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
  return milliseconds * 1e3;
}

CudaGraph::~CudaGraph() {
  if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
}

Result<std::unique_ptr<Stream>> CudaStream::open(CudaDevice& device) {
  BP_TRY(device.make_current());
  auto stream = std::make_unique<CudaStream>(device);
  BP_CUDA(cudaStreamCreateWithFlags(&stream->stream_, cudaStreamNonBlocking));
  return std::unique_ptr<Stream>(std::move(stream));
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

Status CudaStream::launch(const Launch& launch) {
  BP_TRY(device_.make_current());
  BP_TRY(device_.allow_shared_memory(launch));
  const Geometry& g = launch.geometry;
  void* params = const_cast<void*>(launch.params);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(g.grid[0], g.grid[1], g.grid[2]);
  config.blockDim = dim3(g.n_threads, 1, 1);
  config.dynamicSmemBytes = g.shared_bytes;
  config.stream = stream_;
  config.attrs = &overlap;
  config.numAttrs = launches_may_overlap() && device_.overlaps_launches() ? 1 : 0;
  return device_.status_of(
      cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(launch.function), &params),
      "kernel ", launch.name);
}

Status CudaStream::copy_to_device(void* to, const void* from, size_t n_bytes) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyHostToDevice, stream_));
  return {};
}
Status CudaStream::copy_to_host(void* to, const void* from, size_t n_bytes) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDeviceToHost, stream_));
  return {};
}
Status CudaStream::copy_on_device(void* to, const void* from, size_t n_bytes) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaMemcpyAsync(to, from, n_bytes, cudaMemcpyDeviceToDevice, stream_));
  return {};
}
Status CudaStream::fill(void* to, uint8_t byte, size_t n_bytes) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaMemsetAsync(to, byte, n_bytes, stream_));
  return {};
}

Status CudaStream::record(Event& event) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_));
  return {};
}
Status CudaStream::wait(Event& event) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get(), 0));
  return {};
}
Status CudaStream::synchronize() {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaStreamSynchronize(stream_));
  return {};
}

Status CudaStream::begin_capture() {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  return {};
}
Result<std::unique_ptr<Graph>> CudaStream::end_capture() {
  BP_TRY(device_.make_current());
  auto graph = std::make_unique<CudaGraph>();
  cudaGraph_t captured = nullptr;
  BP_CUDA(cudaStreamEndCapture(stream_, &captured));
  const cudaError_t error = graph->instantiate(captured);
  static_cast<void>(cudaGraphDestroy(captured));
  BP_TRY(device_.status_of(error, "cudaGraphInstantiate"));
  BP_TRY(device_.status_of(cudaGraphUpload(graph->get(), stream_), "cudaGraphUpload"));
  return std::unique_ptr<Graph>(std::move(graph));
}
void CudaStream::cancel_capture() {
  cudaGraph_t captured = nullptr;
  if (cudaStreamEndCapture(stream_, &captured) == cudaSuccess && captured != nullptr) {
    static_cast<void>(cudaGraphDestroy(captured));
  }
  static_cast<void>(cudaGetLastError());
}
Status CudaStream::run(Graph& graph) {
  BP_TRY(device_.make_current());
  BP_CUDA(cudaGraphLaunch(static_cast<CudaGraph&>(graph).get(), stream_));
  return {};
}

}  // namespace bp::cuda

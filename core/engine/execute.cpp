#include "core/engine/execute.hpp"

namespace bp::engine {

Execution submit(const plugin::ExecutableHandle& executable, Batch& batch, InFlight& in_flight) {
  Execution execution{&batch, 0, {}};
  in_flight.begin(batch.requests, batch.stop_seq.data());
  execution.status = executable.submit(batch.c, execution.ticket);
  return execution;
}

Status collect(const plugin::ExecutableHandle& executable, Execution execution,
               InFlight& in_flight) {
  if (execution.status.ok()) execution.status = executable.collect(execution.ticket);
  in_flight.end(execution.batch->stop_seq.data());
  return execution.status;
}

}  // namespace bp::engine

#include "core/engine/execute.hpp"

namespace bp::engine {

Status execute(const plugin::ExecutableHandle& executable, Batch& batch, InFlight& in_flight) {
  if (batch.c.n_seqs == 0) return {};
  in_flight.begin(batch.requests, batch.stop_seq.data());
  uint64_t ticket = 0;
  Status status = executable.submit(batch.c, ticket);
  if (status.ok()) status = executable.collect(ticket);
  in_flight.end();
  return status;
}

}  // namespace bp::engine

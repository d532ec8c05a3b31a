#pragma once
// Stage 4: the backend computes the batch, beside which this thread goes on.

#include "core/engine/batch_builder.hpp"
#include "core/engine/mailbox.hpp"
#include "core/plugin/backend.hpp"

namespace bp::engine {

// A step that the backend was given, until it is collected. The batch lives as long.
struct Execution {
  Batch* batch = nullptr;
  uint64_t ticket = 0;
  Status status;  // of submit; where it failed there is nothing to collect
};

// From now on other threads may stop sequences through `in_flight`.
[[nodiscard]] Execution submit(const plugin::ExecutableHandle& executable, Batch& batch,
                               InFlight& in_flight);

// Waits until the batch is computed.
Status collect(const plugin::ExecutableHandle& executable, Execution execution,
               InFlight& in_flight);

}  // namespace bp::engine

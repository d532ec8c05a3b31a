#pragma once
// Stage 4: the backend computes the batch.

#include "core/engine/batch_builder.hpp"
#include "core/engine/mailbox.hpp"
#include "core/plugin/backend.hpp"

namespace bp::engine {

// Meanwhile other threads may stop sequences through `in_flight`.
Status execute(const plugin::ExecutableHandle& executable, Batch& batch, InFlight& in_flight);

}  // namespace bp::engine

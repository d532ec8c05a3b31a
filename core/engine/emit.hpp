#pragma once
// Stage 7: the sinks are told what the step brought.

#include "core/engine/mailbox.hpp"
#include "core/engine/sequence.hpp"

namespace bp::engine {

// Delivers and empties the events; each sink that had some is flushed when all were told. Blocks
// were freed and counters set before, so that a client that has seen the end of its request finds
// them so.
void emit(Events& events, Mailbox& mailbox);

}  // namespace bp::engine

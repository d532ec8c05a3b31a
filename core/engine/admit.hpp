#pragma once
// Stage 1: what other threads asked for since the last step.

#include "core/engine/finish.hpp"
#include "core/engine/mailbox.hpp"
#include "core/engine/sequence.hpp"

namespace bp::engine {

// Appends new sequences and ends cancelled ones, whose blocks are free from now on. Waits where
// there is nothing else to do, if it may. False when the engine shall stop.
bool admit(Mailbox& mailbox, SequenceList& sequences, bool may_wait, const FinishContext& c);

}  // namespace bp::engine

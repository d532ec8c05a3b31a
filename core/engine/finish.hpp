#pragma once
// The end of a choice, whatever the reason.

#include "core/engine/mailbox.hpp"
#include "core/engine/sequence.hpp"
#include "core/engine/stats.hpp"
#include "core/kv/block_manager.hpp"

namespace bp::engine {

struct FinishContext {
  Mailbox& mailbox;
  kv::BlockManager& kv;
  Events& events;
  Stats& stats;
  SequenceList& ended;  // which steps in flight may refer to
};

// Frees the blocks and queues the last event. Where the request's other choices had not come into
// being yet, they end with this one, in the same way. Fills in the usage.
void finish(Sequence& sequence, Finish finish, const FinishContext& c, Delta last = {});

// Moves finished sequences from one list to the other.
void remove_finished(SequenceList& sequences, SequenceList& ended);

}  // namespace bp::engine

#include "core/engine/admit.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace bp::engine {

namespace {

void cancel(const std::vector<RequestId>& ids, SequenceList& sequences, const FinishContext& c) {
  if (ids.empty()) return;
  for (const auto& sequence : sequences) {
    if (std::ranges::find(ids, sequence->request->id) == ids.end()) continue;
    finish(*sequence, {FinishReason::kCancelled, {}, {}, {}}, c);
  }
  remove_finished(sequences, c.ended);
}

}  // namespace

bool admit(Mailbox& mailbox, SequenceList& sequences, bool may_wait, const FinishContext& c) {
  Mailbox::Post post = mailbox.receive(may_wait && sequences.empty() && c.events.empty());
  for (auto& arrival : post.arrivals) {
    arrival->set_id();
    sequences.push_back(std::move(arrival));
  }
  cancel(post.cancelled, sequences, c);
  return !post.stopped;
}

}  // namespace bp::engine

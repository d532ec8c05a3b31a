#include "backplane/reference/state_cache.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace bp::reference {

StateCache::StateCache(std::span<const bp_state_slot> slots) {
  for (const bp_state_slot& slot : slots) slots_.push_back({slot.n_floats, nullptr});
}

uint64_t StateCache::entry_bytes() const {
  uint64_t n_floats = 0;
  for (const Slot& slot : slots_) n_floats += slot.n_floats;
  return n_floats * sizeof(float);
}

Status StateCache::allocate(uint32_t n_entries) {
  for (Slot& slot : slots_) {
    const uint64_t n = uint64_t{std::max(n_entries, 1u) - 1} * slot.n_floats;
    slot.entries.reset(static_cast<float*>(std::calloc(n, sizeof(float))));
    if (n == 0 || slot.entries != nullptr) continue;
    for (Slot& taken : slots_) taken.entries.reset();
    return out_of_memory(std::to_string(n_entries) + " state entries of " +
                         std::to_string(entry_bytes()) + " bytes do not fit into memory");
  }
  n_entries_ = n_entries;
  return {};
}

void StateCache::apply(const bp_block_op& op) {
  if (op.action == BP_BLOCK_COPY) {
    static_cast<void>(continued(op.index, op.source, op.destination));
  } else {
    static_cast<void>(continued(op.index, 0, op.destination));
  }
}

float* StateCache::continued(uint32_t slot_index, int32_t in, int32_t out) {
  const Slot& slot = slots_[slot_index];
  float* state = entry(slot, out);
  if (in == 0) {
    std::fill_n(state, slot.n_floats, 0.0f);
  } else if (in != out) {
    std::copy_n(entry(slot, in), slot.n_floats, state);
  }
  return state;
}

}  // namespace bp::reference

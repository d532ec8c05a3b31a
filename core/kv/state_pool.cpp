#include "core/kv/state_pool.hpp"

#include <cassert>

namespace bp::kv {

StatePool::StatePool(uint32_t n_entries) : n_holders_(n_entries, 0) {
  for (auto entry = static_cast<StateEntry>(n_entries) - 1; entry > kZeroState; --entry) {
    free_.push_back(entry);
  }
}

StateEntry StatePool::take() {
  if (free_.empty()) return kZeroState;
  const StateEntry entry = free_.back();
  free_.pop_back();
  n_holders_[index(entry)] = 1;
  return entry;
}

void StatePool::add_holder(StateEntry entry) {
  if (entry != kZeroState) ++n_holders_[index(entry)];
}

void StatePool::remove_holder(StateEntry entry) {
  if (entry == kZeroState) return;
  assert(n_holders_[index(entry)] > 0);
  if (--n_holders_[index(entry)] == 0) free_.push_back(entry);
}

}  // namespace bp::kv

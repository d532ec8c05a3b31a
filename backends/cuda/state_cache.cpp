#include "backends/cuda/state_cache.hpp"

namespace bp::cuda {

StateCache::StateCache(std::span<const bp_state_slot> slots) {
  for (const bp_state_slot& slot : slots) slots_.push_back({slot.n_floats, nullptr});
}

uint64_t StateCache::entry_bytes() const {
  uint64_t n_floats = 0;
  for (const Slot& slot : slots_) n_floats += slot.n_floats;
  return n_floats * sizeof(float);
}

Status StateCache::allocate(Device& device, uint32_t n_entries) {
  BP_ASSIGN(memory_, device.allocate(MemoryKind::kDevice, n_entries * entry_bytes(),
                                     "the states of sequences"));
  auto* at = reinterpret_cast<float*>(memory_.data());
  for (Slot& slot : slots_) {
    slot.entries = at;
    at += n_entries * slot.n_floats;
  }
  n_entries_ = n_entries;
  return {};
}

void StateCache::release() {
  memory_ = Memory();
  n_entries_ = 0;
}

Status StateCache::apply(Stream& stream, const bp_block_op& op) const {
  const Slot& slot = slots_[op.index];
  const uint64_t n_bytes = slot.n_floats * sizeof(float);
  float* const to = slot.entries + static_cast<uint64_t>(op.destination) * slot.n_floats;
  // Entry 0 stands for zeros.
  if (op.action == BP_BLOCK_CLEAR || op.source == 0) return stream.fill(to, 0, n_bytes);
  if (op.source == op.destination) return {};
  return stream.copy_on_device(to, slot.entries + static_cast<uint64_t>(op.source) * slot.n_floats,
                               n_bytes);
}

}  // namespace bp::cuda

#pragma once
// What ops with state keep of each sequence, in device memory: of every state slot, entries of
// floats.

#include <span>
#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backplane/batch.h"
#include "backplane/program.h"

namespace bp::cuda {

class StateCache {
 public:
  explicit StateCache(std::span<const bp_state_slot> slots);

  [[nodiscard]] uint32_t n_slots() const { return static_cast<uint32_t>(slots_.size()); }
  [[nodiscard]] uint32_t n_entries() const { return n_entries_; }
  // Of one entry, in all slots.
  [[nodiscard]] uint64_t entry_bytes() const;

  Status allocate(Device& device, uint32_t n_entries);
  void release();
  // Clears or copies an entry of one slot. Indices are in range.
  Status apply(Stream& stream, const bp_block_op& op) const;

  // [n_entries, n_floats of the slot]; entry 0 is memory that nobody reads.
  [[nodiscard]] float* entries(uint32_t slot) const { return slots_[slot].entries; }

 private:
  struct Slot {
    uint64_t n_floats;
    float* entries;
  };

  std::vector<Slot> slots_;
  Memory memory_;
  uint32_t n_entries_ = 0;
};

}  // namespace bp::cuda

#pragma once
// What ops with state keep of each sequence: of every state slot, entries of n_floats.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "backplane/batch.h"
#include "backplane/program.h"
#include "backplane/status.hpp"

namespace bp::reference {

class StateCache {
 public:
  explicit StateCache(std::span<const bp_state_slot> slots);

  // Of one entry, in all slots.
  [[nodiscard]] uint64_t entry_bytes() const;
  [[nodiscard]] uint32_t n_slots() const { return static_cast<uint32_t>(slots_.size()); }
  [[nodiscard]] uint32_t n_entries() const { return n_entries_; }

  // Entry 0 is not stored.
  Status allocate(uint32_t n_entries);

  // Clears or copies an entry of one slot. Indices are in range.
  void apply(const bp_block_op& op);

  // The state of an entry as it goes on in entry `out`: a copy of entry `in`, zeros for entry 0.
  [[nodiscard]] float* continued(uint32_t slot, int32_t in, int32_t out);

  // [n_floats of the slot], other than entry 0.
  [[nodiscard]] float* entry(uint32_t slot, int32_t index) const {
    return entry(slots_[slot], index);
  }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  struct Slot {
    uint64_t n_floats;
    std::unique_ptr<float[], Free> entries;  // [n_entries - 1, n_floats]
  };

  static float* entry(const Slot& slot, int32_t index) {
    return slot.entries.get() + static_cast<uint64_t>(index - 1) * slot.n_floats;
  }

  std::vector<Slot> slots_;
  uint32_t n_entries_ = 0;
};

}  // namespace bp::reference

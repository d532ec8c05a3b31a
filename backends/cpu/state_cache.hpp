#pragma once
// What recurrent ops keep of each sequence: of every state slot, entries whose layout is that of
// the slot's op. short_conv keeps [kernel - 1][width rounded up to 16], oldest row first;
// gated_delta [head][value_dim / 16, rounded up][key_dim][16], so that a panel of 16 columns, whose
// recurrence is its own, is contiguous.

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backplane/batch.h"
#include "backplane/program_view.hpp"
#include "backplane/status.hpp"

namespace bp::cpu {

class StateCache {
 public:
  // The program has passed validation.
  explicit StateCache(const ProgramView& program);

  [[nodiscard]] uint32_t n_slots() const { return static_cast<uint32_t>(slots_.size()); }
  [[nodiscard]] uint32_t n_entries() const { return n_entries_; }
  // Of one entry, in all slots.
  [[nodiscard]] uint64_t entry_bytes() const;

  // Entry 0 takes no memory.
  Status allocate(uint32_t n_entries);

  // Precondition: indices are in range.
  void apply(const bp_block_op& op);

  // An entry of one slot as images have it (backplane/ext/kv_transfer.h), without padding.
  void export_entry(uint32_t slot, int32_t index, uint8_t* image) const;
  void import_entry(uint32_t slot, int32_t index, const uint8_t* image);

  // Precondition: index is not 0.
  [[nodiscard]] float* entry(uint32_t slot, int32_t index) const {
    const Slot& s = slots_[slot];
    return reinterpret_cast<float*>(s.entries.data()) +
           static_cast<uint64_t>(index - 1) * s.n_floats;
  }

 private:
  // Images have [n_heads][n_rows][n_columns], of short_conv [kernel - 1][1][width].
  struct Slot {
    uint64_t n_floats = 0;  // of an entry; a multiple of 16
    uint64_t n_heads = 1, n_rows = 1, n_columns = 0;
    AlignedBuffer entries;
  };

  // Calls f(where a run begins in the entry, where in the image, floats of the run).
  template <class F>
  static void for_each_run(const Slot& slot, F&& f);

  std::vector<Slot> slots_;
  uint32_t n_entries_ = 0;
};

}  // namespace bp::cpu

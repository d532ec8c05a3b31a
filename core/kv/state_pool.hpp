#pragma once
// Entries of a program's state slots, and how many sequences hold each. Entry 0 stands for zeros
// and is never handed out.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bp::kv {

using StateEntry = int32_t;
inline constexpr StateEntry kZeroState = 0;

class StatePool {
 public:
  // n_entries 0: the program has no state slots.
  explicit StatePool(uint32_t n_entries);

  [[nodiscard]] bool is_used() const { return !n_holders_.empty(); }
  [[nodiscard]] uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }
  [[nodiscard]] uint32_t n_holders(StateEntry entry) const { return n_holders_[index(entry)]; }

  // With one holder; kZeroState where none is free.
  [[nodiscard]] StateEntry take();
  // Both do nothing with kZeroState.
  void add_holder(StateEntry entry);
  void remove_holder(StateEntry entry);

 private:
  static size_t index(StateEntry entry) { return static_cast<size_t>(entry); }

  std::vector<uint32_t> n_holders_;  // of each entry
  std::vector<StateEntry> free_;     // the last one goes next
};

}  // namespace bp::kv

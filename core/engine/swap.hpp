#pragma once
// Preempted sequences' keys, values and states in host memory, in place of computing them again.

#include <optional>
#include <span>

#include "core/engine/sequence.hpp"
#include "core/engine/stats.hpp"
#include "core/kv/block_manager.hpp"
#include "core/kv/swap_store.hpp"
#include "core/plugin/kv_transfer.hpp"

namespace bp::engine {

class Swap {
 public:
  // Keeps nothing without a transfer or without room.
  Swap(std::optional<plugin::KvTransfer> transfer, uint64_t room_bytes)
      : transfer_(std::move(transfer)), store_(room_bytes) {}

  // Copies what a sequence has computed out of its blocks, where there is room for all of it.
  void keep(Sequence& s, const kv::BlockManager& kv, Stats& stats);

  // Brings it back into new blocks behind those that the sequence found in the prefix cache. False
  // where there are too few of them; then nothing has changed. Where an image cannot be imported,
  // the sequence goes on from what it has.
  [[nodiscard]] bool restore(Sequence& s, kv::BlockManager& kv, Stats& stats);

  [[nodiscard]] uint64_t used_bytes() const { return store_.used_bytes(); }
  // That all copies so far took.
  [[nodiscard]] uint64_t copy_us() const { return copy_us_; }

 private:
  [[nodiscard]] uint64_t bytes_of(uint32_t n_blocks, const kv::BlockManager& kv) const;
  // Calls f(group, ids, images) for the blocks from `first` on, and for the state entry. Timed.
  template <class F>
  Status for_each_group(std::span<const kv::BlockId> blocks, size_t first, kv::StateEntry state,
                        const kv::BlockManager& kv, std::span<uint8_t> images, F&& f);

  std::optional<plugin::KvTransfer> transfer_;
  kv::SwapStore store_;
  uint64_t copy_us_ = 0;
};

}  // namespace bp::engine

#pragma once
// The KV blocks of all sequences of a model: tables, sharing, copy on write and the prefix cache.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backplane/batch.h"
#include "core/kv/block_pool.hpp"
#include "core/kv/prefix_cache.hpp"
#include "core/kv/state_pool.hpp"

namespace bp::kv {

// The blocks of one sequence; all KV groups use the same ids. Filled and emptied by BlockManager.
struct BlockTable {
  std::vector<BlockId> blocks;         // position p lives in blocks[p / block_size]
  uint32_t n_registered = 0;           // leading blocks known to the prefix cache
  PrefixNode prefix = kEmptyPrefix;    // of those
  StateEntry state = kZeroState;       // after the computed tokens; other tables may hold it too
  StateEntry next_state = kZeroState;  // after those that are reserved; `state` itself where no
                                       // other table holds it
};

class BlockManager {
 public:
  struct Options {
    uint32_t n_blocks = 1;  // null block included
    uint32_t block_size = 1;
    uint32_t n_groups = 1;
    bool prefix_cache = true;      // without state entries: a block does not say what they held
    uint32_t n_state_entries = 0;  // zero entry included; 0: the program has no state slots
  };
  explicit BlockManager(const Options& options);

  [[nodiscard]] uint32_t block_size() const { return options_.block_size; }
  [[nodiscard]] uint32_t n_groups() const { return options_.n_groups; }
  [[nodiscard]] uint32_t n_blocks() const { return options_.n_blocks; }
  [[nodiscard]] uint32_t n_usable() const { return options_.n_blocks - 1; }
  // That can be had now: free ones and idle ones of the prefix cache.
  [[nodiscard]] uint32_t n_available() const { return pool_.n_free() + cache_.n_idle(); }
  // Held by sequences.
  [[nodiscard]] uint32_t n_used() const { return n_usable() - n_available(); }
  [[nodiscard]] uint32_t blocks_for(uint64_t n_tokens) const {
    return static_cast<uint32_t>((n_tokens + options_.block_size - 1) / options_.block_size);
  }
  // Content kept that nobody uses.
  [[nodiscard]] uint32_t n_cached() const { return cache_.n_idle(); }
  // Blocks of the table that the sequence may write to or fill up without a copy.
  [[nodiscard]] uint32_t n_held(const BlockTable& table, uint32_t n_computed) const;

  // Leading tokens in the prefix cache; never all of them, since the last one must be computed.
  [[nodiscard]] uint32_t find_prefix(std::span<const int32_t> tokens, std::string_view salt) const;
  // The same answer from what `match` remembers: cheap when little changed since it was asked for
  // the same tokens.
  uint32_t find_prefix(PrefixMatch& match, std::span<const int32_t> tokens, std::string_view salt);
  // Leading blocks that it found and sequences use: another user takes none of n_available. The
  // match is up to date.
  [[nodiscard]] uint32_t n_in_use(const PrefixMatch& match) const;
  // While it stays the same, so does what matches answer that were asked since it changed.
  [[nodiscard]] uint64_t prefix_version() const { return cache_.version(); }
  // Finds a prefix, and an empty table becomes a user of its blocks.
  uint32_t take_prefix(BlockTable& table, std::span<const int32_t> tokens, std::string_view salt);

  // Makes positions [n_computed, n_tokens) writable: adds blocks, replaces the shared block that
  // n_computed lies in by a copy, whose block_ops are appended, and finds an entry for the state
  // after them. Changes nothing and answers false when there are not enough blocks or entries.
  bool reserve(BlockTable& table, uint32_t n_computed, uint32_t n_tokens,
               std::vector<bp_block_op>& block_ops);
  [[nodiscard]] bool has_states() const { return states_.is_used(); }
  // Whether reserve fails until other tables give up state entries.
  [[nodiscard]] bool lacks_state(const BlockTable& table) const;
  // Tables that hold the state of this one, itself included; 0 where it has none.
  [[nodiscard]] uint32_t n_state_holders(const BlockTable& table) const {
    return table.state == kZeroState ? 0 : states_.n_holders(table.state);
  }
  // The reserved positions are computed: next_state becomes the state.
  void advance_state(BlockTable& table);
  // A table that shares the blocks of the first n_tokens tokens, which are all that are computed,
  // and the state after them.
  BlockTable fork(const BlockTable& table, uint32_t n_tokens);
  // Makes the full blocks of the first n_computed tokens findable. `tokens` holds at least those.
  void register_full(BlockTable& table, std::span<const int32_t> tokens, uint32_t n_computed,
                     std::string_view salt);

  // Empties the table; registered blocks stay findable while nobody needs their room.
  void release(BlockTable& table);
  // Empties the table; its blocks are not found again, since their content is in doubt.
  void discard(BlockTable& table);

  // Every block is free, idle or counted by the tables that use it; `tables` must be all of them.
  [[nodiscard]] bool consistent(std::span<const BlockTable* const> tables) const;

 private:
  [[nodiscard]] bool states_consistent(std::span<const BlockTable* const> tables) const;
  [[nodiscard]] bool allocate(uint32_t n, BlockId after, std::vector<BlockId>& out);
  void reserve_state(BlockTable& table);
  void use(BlockId block);
  void drop(BlockId block);

  // The tokens that may be found: of full blocks, without the last token.
  [[nodiscard]] std::span<const int32_t> matchable(std::span<const int32_t> tokens) const;
  template <class Visit>
  uint32_t walk_prefix(std::span<const int32_t> tokens, std::string_view salt, Visit&& visit) const;

  Options options_;
  BlockPool pool_;
  StatePool states_;
  PrefixCache cache_;
};

}  // namespace bp::kv

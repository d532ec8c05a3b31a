#pragma once
// Which KV blocks are free, and how many sequences use each of the others.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bp::kv {

using BlockId = int32_t;

// Positions past a sequence's context point here; it is never handed out.
inline constexpr BlockId kNullBlock = 0;

// A block is free (in the pool), or allocated with a number of users; with 0 users it is idle,
// which is how the prefix cache keeps content that nobody uses at the moment.
class BlockPool {
 public:
  // Blocks 1 .. n_blocks-1 are free at first.
  explicit BlockPool(uint32_t n_blocks);

  [[nodiscard]] uint32_t n_blocks() const { return n_blocks_; }
  [[nodiscard]] uint32_t n_free() const { return n_free_; }
  [[nodiscard]] bool is_free(BlockId block) const;
  [[nodiscard]] uint32_t n_users(BlockId block) const { return users_[index(block)]; }

  // Appends n blocks with one user each to `out`: those right after `after` where they are free,
  // then the first run long enough for the rest, then the longest runs. n <= n_free().
  void allocate(uint32_t n, BlockId after, std::vector<BlockId>& out);
  void add_user(BlockId block);
  // Answers whether the block is idle now.
  bool remove_user(BlockId block);
  // Gives an idle block back.
  void free(BlockId block);

 private:
  struct Run {
    uint32_t begin = 0;
    uint32_t length = 0;
  };

  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  [[nodiscard]] uint32_t free_run_at(uint32_t begin, uint32_t limit) const;
  [[nodiscard]] Run find_run(uint32_t n);
  void take(uint32_t begin, uint32_t length, std::vector<BlockId>& out);

  uint32_t n_blocks_;
  uint32_t n_free_;
  uint32_t none_free_below_ = 0;     // so that searches need not begin at block 1
  std::vector<uint64_t> free_bits_;  // bit i % 64 of word i / 64
  std::vector<uint32_t> users_;      // [n_blocks]
};

}  // namespace bp::kv

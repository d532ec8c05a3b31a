#include "core/kv/block_pool.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace bp::kv {

namespace {

// Index of the first bit equal to `value` in [begin, end), or end. Whole words at a time.
uint32_t find_bit(const std::vector<uint64_t>& bits, uint32_t begin, uint32_t end, bool value) {
  while (begin < end) {
    const uint64_t word = value ? bits[begin / 64] : ~bits[begin / 64];
    const uint64_t rest = word >> (begin % 64);
    if (rest != 0) return std::min(end, begin + static_cast<uint32_t>(std::countr_zero(rest)));
    begin = (begin / 64 + 1) * 64;
  }
  return end;
}

}  // namespace

BlockPool::BlockPool(uint32_t n_blocks)
    : n_blocks_(n_blocks),
      n_free_(n_blocks - 1),
      free_bits_((n_blocks + 63) / 64, 0),
      users_(n_blocks, 0) {
  assert(n_blocks >= 1);
  for (uint32_t i = 1; i < n_blocks; ++i) free_bits_[i / 64] |= uint64_t{1} << (i % 64);
}

bool BlockPool::is_free(BlockId block) const {
  return (free_bits_[index(block) / 64] >> (index(block) % 64) & 1) != 0;
}

uint32_t BlockPool::free_run_at(uint32_t begin, uint32_t limit) const {
  const uint32_t end = std::min(n_blocks_, begin + limit);
  return begin < end ? find_bit(free_bits_, begin, end, false) - begin : 0;
}

BlockPool::Run BlockPool::find_run(uint32_t n) {
  Run longest;
  none_free_below_ = find_bit(free_bits_, none_free_below_, n_blocks_, true);
  uint32_t begin = none_free_below_;
  while (begin < n_blocks_) {
    const uint32_t end = find_bit(free_bits_, begin, n_blocks_, false);
    if (end - begin > longest.length) longest = {begin, end - begin};
    if (longest.length >= n) break;
    begin = find_bit(free_bits_, end, n_blocks_, true);
  }
  return longest;
}

void BlockPool::take(uint32_t begin, uint32_t length, std::vector<BlockId>& out) {
  for (uint32_t i = begin; i < begin + length; ++i) {
    free_bits_[i / 64] &= ~(uint64_t{1} << (i % 64));
    users_[i] = 1;
    out.push_back(static_cast<BlockId>(i));
  }
  n_free_ -= length;
  if (n_free_ == 0) none_free_below_ = n_blocks_;
}

void BlockPool::allocate(uint32_t n, BlockId after, std::vector<BlockId>& out) {
  assert(n <= n_free_);
  const uint32_t next = static_cast<uint32_t>(after) + 1;
  const uint32_t neighbours = after == kNullBlock ? 0 : free_run_at(next, n);
  take(next, neighbours, out);
  n -= neighbours;
  while (n > 0) {
    const Run run = find_run(n);
    const uint32_t length = std::min(n, run.length);
    take(run.begin, length, out);
    n -= length;
  }
}

void BlockPool::add_user(BlockId block) {
  assert(block != kNullBlock && !is_free(block));
  ++users_[index(block)];
}

bool BlockPool::remove_user(BlockId block) {
  assert(users_[index(block)] > 0);
  return --users_[index(block)] == 0;
}

void BlockPool::free(BlockId block) {
  assert(block != kNullBlock && !is_free(block) && users_[index(block)] == 0);
  free_bits_[index(block) / 64] |= uint64_t{1} << (index(block) % 64);
  none_free_below_ = std::min(none_free_below_, static_cast<uint32_t>(index(block)));
  ++n_free_;
}

}  // namespace bp::kv

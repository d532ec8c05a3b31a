#include "backends/cuda/emulator/block.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace bp::cuda::emulator {

namespace {

thread_local Block* g_current = nullptr;  // of the host thread that runs a launch

constexpr size_t kSharedAlignment = 128;
constexpr uint8_t kPoison = 0xff;  // what is read before it is written is a NaN

Index3 index_of(uint64_t i, const std::array<uint32_t, 3>& grid) {
  return {static_cast<uint32_t>(i % grid[0]), static_cast<uint32_t>(i / grid[0] % grid[1]),
          static_cast<uint32_t>(i / grid[0] / grid[1])};
}

}  // namespace

Block& Block::current() {
  return *g_current;
}

std::vector<Block::PendingCopy>& Block::pending_copies() {
  return threads_[running_]->copies;
}

uint32_t& Block::copy_group() {
  return threads_[running_]->copy_group;
}

// Place i of a permutation of 0..n-1. Shuffled is an affine map, whose factor has no divisor in
// common with n.
uint32_t Block::permuted(uint32_t i, uint32_t n, uint32_t salt) const {
  if (order_ == Order::kReversed) return n - 1 - i;
  uint32_t factor = 7919 + 2 * (salt % 64);
  while (std::gcd(factor, n) != 1) ++factor;
  return static_cast<uint32_t>((uint64_t{factor} * i + salt) % n);
}

Status Block::run(const Launch& launch) {
  const Geometry& geometry = launch.geometry;
  if (geometry.n_threads == 0 || geometry.n_threads > 1024 || geometry.grid[1] > 65535 ||
      geometry.grid[2] > 65535) {
    return internal_error(std::string("kernel ") + launch.name + ": a launch of " +
                          std::to_string(geometry.n_threads) + " threads in " +
                          std::to_string(geometry.n_blocks()) + " blocks is not possible");
  }
  n_threads_ = geometry.n_threads;
  grid_size_ = {geometry.grid[0], geometry.grid[1], geometry.grid[2]};
  while (threads_.size() < n_threads_) {
    threads_.push_back(std::make_unique<Thread>(static_cast<uint32_t>(threads_.size())));
  }
  shared_bytes_.resize(std::max(shared_bytes_.size(), geometry.shared_bytes + kSharedAlignment));
  const auto address = reinterpret_cast<uintptr_t>(shared_bytes_.data());
  shared_ = shared_bytes_.data() + (kSharedAlignment - address % kSharedAlignment);
  launch_ = &launch;
  const auto n_blocks = static_cast<uint32_t>(geometry.n_blocks());
  for (uint32_t i = 0; i < n_blocks; ++i) {
    block_index_ = index_of(in_order(i, n_blocks, n_blocks), geometry.grid);
    BP_TRY(run_block(launch));
  }
  const bool has_overflowed = std::ranges::any_of(
      threads_, [](const auto& thread) { return thread->fiber.has_overflowed(); });
  if (!has_overflowed) return {};
  return internal_error(std::string("kernel ") + launch.name + " uses more stack than there is");
}

Status Block::run_block(const Launch& launch) {
  std::fill_n(shared_, launch.geometry.shared_bytes, kPoison);
  for (uint32_t t = 0; t < n_threads_; ++t) {
    Thread& thread = *threads_[t];
    thread.wait = Wait::kNone;
    thread.copies.clear();
    thread.copy_group = 0;
    thread.is_in_order = false;
    thread.fiber.prepare(
        [](void* self) {
          const Launch& l = *static_cast<Block*>(self)->launch_;
          l.call(l.function, l.params);
        },
        this);
  }
  Block* const outer = g_current;
  g_current = this;
  const uint32_t n_warps = (n_threads_ + kWarpSize - 1) / kWarpSize;
  bool has_moved = true;
  while (has_moved) {
    has_moved = false;
    for (uint32_t i = 0; i < n_warps; ++i) has_moved |= run_warp(in_order(i, n_warps, 3));
    has_moved |= meet_block();
  }
  g_current = outer;
  return misbehaved(launch);
}

// Until its lanes all wait for other warps or are done.
bool Block::run_warp(uint32_t warp) {
  bool has_moved = false;
  while (run_lanes(warp) || meet_lanes(warp)) has_moved = true;
  return has_moved;
}

bool Block::run_lanes(uint32_t warp) {
  const uint32_t first = warp * kWarpSize, n = std::min(kWarpSize, n_threads_ - first);
  bool has_moved = false;
  for (uint32_t i = 0; i < n; ++i) {
    running_ = first + in_order(i, n, warp + 1);
    Thread& thread = *threads_[running_];
    if (thread.wait != Wait::kNone || thread.fiber.is_done()) continue;
    thread.fiber.resume();
    has_moved = true;
  }
  return has_moved;
}

// Lets go the lanes of the first collective for which all have come.
bool Block::meet_lanes(uint32_t warp) {
  const uint32_t first = warp * kWarpSize, n = std::min(kWarpSize, n_threads_ - first);
  uint32_t tried = 0;  // lanes of masks that some lane is missing from
  for (uint32_t i = 0; i < n; ++i) {
    const Thread& one = *threads_[first + i];
    if (one.wait != Wait::kWarp || (tried >> i & 1) != 0) continue;
    if (meet(first, n, one.mask, one.collective)) return true;
    tried |= one.mask;
  }
  return false;
}

bool Block::meet(uint32_t first, uint32_t n, uint32_t mask, Collective collective) {
  void* arguments[kWarpSize] = {};
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(left));
    if (lane >= n) return false;
    const Thread& thread = *threads_[first + lane];
    if (thread.wait != Wait::kWarp || thread.mask != mask || thread.collective != collective) {
      return false;
    }
    arguments[lane] = thread.argument;
  }
  collective(arguments, mask);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    threads_[first + static_cast<uint32_t>(std::countr_zero(left))]->wait = Wait::kNone;
  }
  return true;
}

// Threads that have returned count as having come.
bool Block::meet_block() {
  bool any = false;
  for (uint32_t t = 0; t < n_threads_; ++t) {
    if (threads_[t]->fiber.is_done()) continue;
    if (threads_[t]->wait != Wait::kBlock) return false;
    any = true;
  }
  for (uint32_t t = 0; t < n_threads_; ++t) threads_[t]->wait = Wait::kNone;
  return any;
}

Status Block::misbehaved(const Launch& launch) const {
  const std::string where = std::string("kernel ") + launch.name + ", block (" +
                            std::to_string(block_index_.x) + ", " + std::to_string(block_index_.y) +
                            ", " + std::to_string(block_index_.z) + "), thread ";
  for (uint32_t t = 0; t < n_threads_; ++t) {
    const Thread& thread = *threads_[t];
    if (thread.fiber.is_done()) {
      if (thread.is_in_order) continue;
      return internal_error(where + std::to_string(t) + " has not waited for launches before");
    }
    const std::string what = thread.wait == Wait::kBlock ? "__syncthreads" : thread.what;
    return internal_error(where + std::to_string(t) + " waits at " + what +
                          " for threads that do not come");
  }
  return {};
}

void Block::wait_for_block() {
  Thread& thread = *threads_[running_];
  thread.wait = Wait::kBlock;
  thread.fiber.suspend();
}

void Block::wait_for_warp(uint32_t mask, const char* what, Collective collective, void* argument) {
  Thread& thread = *threads_[running_];
  thread.wait = Wait::kWarp;
  thread.mask = mask;
  thread.what = what;
  thread.collective = collective;
  thread.argument = argument;
  thread.fiber.suspend();
}

}  // namespace bp::cuda::emulator

#pragma once
// One block of a launch: its threads as fibers, run in turn between the points where they wait for
// each other.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/emulator/fiber.hpp"

namespace bp::cuda::emulator {

inline constexpr uint32_t kWarpSize = 32;

struct Index3 {
  uint32_t x = 0, y = 0, z = 0;
};

// In which order the threads of a block, and the blocks of a grid, get their turns. A kernel
// without races gives the same in each.
enum class Order { kForward, kReversed, kShuffled };

// What lanes of a warp do together once all of them have come: arguments[lane] is what a lane gave,
// null for lanes outside of the mask.
using Collective = void (*)(void* const* arguments, uint32_t mask);

class Block {
 public:
  explicit Block(Order order) : order_(order) {}

  // Runs the kernel for every block of the grid. An error names what the threads did wrong.
  Status run(const Launch& launch);

  // ---- for the current thread of a running block ----
  static Block& current();
  [[nodiscard]] Index3 thread_index() const { return {running_, 0, 0}; }
  [[nodiscard]] Index3 block_index() const { return block_index_; }
  [[nodiscard]] Index3 block_size() const { return {n_threads_, 1, 1}; }
  [[nodiscard]] Index3 grid_size() const { return grid_size_; }
  [[nodiscard]] uint32_t lane() const { return running_ % kWarpSize; }
  [[nodiscard]] uint8_t* shared() const { return shared_; }
  [[nodiscard]] Order order() const { return order_; }
  // What the thread has asked to be copied and not waited for, in groups.
  struct PendingCopy {
    void* to;
    const void* from;
    uint32_t n_bytes;
    uint32_t group;
  };
  [[nodiscard]] std::vector<PendingCopy>& pending_copies();
  [[nodiscard]] uint32_t& copy_group();

  // The thread has waited for the launches before.
  void come_in_order() { threads_[running_]->is_in_order = true; }
  void wait_for_block();
  // All lanes of the mask call it with the same function; `what` is for messages.
  void wait_for_warp(uint32_t mask, const char* what, Collective collective, void* argument);

 private:
  enum class Wait : uint8_t { kNone, kWarp, kBlock };
  struct Thread {
    explicit Thread(uint32_t index) : fiber(index) {}
    Fiber fiber;
    Wait wait = Wait::kNone;
    uint32_t mask = 0;
    const char* what = nullptr;
    Collective collective = nullptr;
    void* argument = nullptr;
    std::vector<PendingCopy> copies;
    uint32_t copy_group = 0;
    bool is_in_order = false;
  };

  Status run_block(const Launch& launch);
  bool run_warp(uint32_t warp);
  bool run_lanes(uint32_t warp);
  bool meet_lanes(uint32_t warp);
  bool meet(uint32_t first, uint32_t n, uint32_t mask, Collective collective);
  bool meet_block();
  [[nodiscard]] Status misbehaved(const Launch& launch) const;
  [[nodiscard]] uint32_t in_order(uint32_t i, uint32_t n, uint32_t salt) const {
    return order_ == Order::kForward ? i : permuted(i, n, salt);
  }
  [[nodiscard]] uint32_t permuted(uint32_t i, uint32_t n, uint32_t salt) const;

  Order order_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<uint8_t> shared_bytes_;
  uint8_t* shared_ = nullptr;
  const Launch* launch_ = nullptr;
  uint32_t n_threads_ = 0;
  uint32_t running_ = 0;
  Index3 block_index_, grid_size_;
};

}  // namespace bp::cuda::emulator

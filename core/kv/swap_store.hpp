#pragma once
// Room in host memory for the images of blocks that preempted sequences gave up. The engine's
// thread only.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace bp::kv {

class SwapStore {
 public:
  explicit SwapStore(uint64_t room_bytes) : room_bytes_(room_bytes) {}
  SwapStore(const SwapStore&) = delete;
  SwapStore& operator=(const SwapStore&) = delete;

  // What is kept of one sequence; gives its room back when destroyed. The store outlives it.
  class Images {
   public:
    Images() = default;
    Images(Images&& other) noexcept { swap(other); }
    Images& operator=(Images&& other) noexcept {
      Images(std::move(other)).swap(*this);
      return *this;
    }
    ~Images();

    [[nodiscard]] bool empty() const { return bytes_ == nullptr; }
    // Leading tokens of the sequence that they hold; 0 where there are none.
    [[nodiscard]] uint32_t n_tokens() const { return n_tokens_; }
    [[nodiscard]] std::span<uint8_t> bytes() const { return {bytes_.get(), n_bytes_}; }

   private:
    friend class SwapStore;
    void swap(Images& other) noexcept;

    SwapStore* store_ = nullptr;
    std::unique_ptr<uint8_t[]> bytes_;
    uint64_t n_bytes_ = 0;
    uint32_t n_tokens_ = 0;
  };

  // Empty where there is not enough room, or the system has no memory.
  [[nodiscard]] Images take(uint64_t n_bytes, uint32_t n_tokens);

  [[nodiscard]] uint64_t used_bytes() const { return used_bytes_; }

 private:
  uint64_t room_bytes_;
  uint64_t used_bytes_ = 0;
};

}  // namespace bp::kv

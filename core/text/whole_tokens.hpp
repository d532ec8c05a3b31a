#pragma once
// Remembers which tokens are what their own bytes encode to: most pieces of a text are one token,
// and need no merging once that is known.

#include <atomic>
#include <cstdint>
#include <memory>

namespace bp::text {

class WholeTokens {
 public:
  explicit WholeTokens(size_t n_tokens) : states_(new std::atomic<uint8_t>[n_tokens]()) {}

  // compute() answers for a token at its first call; it is pure, so that threads may race to it.
  // [any-thread]
  template <class Compute>
  [[nodiscard]] bool contains(int32_t id, const Compute& compute) const {
    std::atomic<uint8_t>& state = states_[static_cast<size_t>(id)];
    uint8_t known = state.load(std::memory_order_relaxed);
    if (known == kUntested) {
      known = compute() ? kWhole : kInParts;
      state.store(known, std::memory_order_relaxed);
    }
    return known == kWhole;
  }

 private:
  static constexpr uint8_t kUntested = 0;
  static constexpr uint8_t kWhole = 1;
  static constexpr uint8_t kInParts = 2;

  std::unique_ptr<std::atomic<uint8_t>[]> states_;
};

}  // namespace bp::text

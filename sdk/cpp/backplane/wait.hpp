#pragma once
// For plugins and hosts whose threads wait for each other: poll a word, then sleep until notified.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace bp {

// Tells the core that it polls.
inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline const uint32_t& bare(const std::atomic<uint32_t>& word) {
  static_assert(sizeof word == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
  return reinterpret_cast<const uint32_t&>(word);
}

// Polls until `word` differs from `old`, at most so long; what it is then.
inline uint32_t poll_for_change(const uint32_t& word, uint32_t old,
                                std::chrono::microseconds at_most) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPollsPerLook = 16;  // at the clock
  uint32_t now = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
  if (now != old) return now;
  for (const auto until = Clock::now() + at_most; now == old && Clock::now() < until;) {
    for (int i = 0; i < kPollsPerLook && now == old; ++i) {
      pause_core();
      now = __atomic_load_n(&word, __ATOMIC_ACQUIRE);
    }
  }
  return now;
}

// Waits until `word` differs from `old`, and returns what it is then: polls for a while, then
// sleeps until notified. It polls without yielding: a scheduler takes a yield for the end of the
// thread's time slice, and gives the core away for milliseconds where others want it.
inline uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old,
                                std::chrono::microseconds spin_for) {
  if (spin_for.count() > 0) poll_for_change(bare(word), old, spin_for);
  uint32_t now;
  while ((now = word.load(std::memory_order_acquire)) == old) {
    word.wait(old, std::memory_order_acquire);
  }
  return now;
}

inline constexpr uint32_t kAllWaiting = UINT32_MAX;
// Wakes n of those that wait for a change of `word`, which has changed. Whether anyone waits,
// std::atomic looks up by a load, which the word's own store must not follow: who went to sleep
// between the two would sleep on.
inline void notify(std::atomic<uint32_t>& word, uint32_t n = kAllWaiting) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (n == kAllWaiting) return word.notify_all();
  for (uint32_t i = 0; i < n; ++i) word.notify_one();
}

}  // namespace bp

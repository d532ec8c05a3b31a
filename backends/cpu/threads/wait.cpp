#include "backends/cpu/threads/wait.hpp"

namespace bp::cpu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollsPerLook = 32;  // at the clock

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old,
                         std::chrono::microseconds spin_for) {
  uint32_t now = word.load(std::memory_order_acquire);
  if (now != old) return now;
  if (spin_for.count() > 0) {
    const auto until = Clock::now() + spin_for;
    do {
      for (int i = 0; i < kPollsPerLook; ++i) {
        now = word.load(std::memory_order_acquire);
        if (now != old) return now;
        pause_core();
      }
    } while (Clock::now() < until);
  }
  while ((now = word.load(std::memory_order_acquire)) == old) {
    word.wait(old, std::memory_order_acquire);
  }
  return now;
}

void notify(std::atomic<uint32_t>& word, uint32_t n) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (n == kAllWaiting) return word.notify_all();
  for (uint32_t i = 0; i < n; ++i) word.notify_one();
}

}  // namespace bp::cpu

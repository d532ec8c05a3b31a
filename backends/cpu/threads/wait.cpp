#include "backends/cpu/threads/wait.hpp"

#include <chrono>

namespace bp::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Longer than most items take; waking a sleeping core costs as much.
constexpr auto kSpinFor = std::chrono::microseconds(100);
constexpr int kPollsPerLook = 32;  // at the clock

}  // namespace

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, bool may_spin) {
  uint32_t now = word.load(std::memory_order_acquire);
  if (now != old) return now;
  for (const auto until = Clock::now() + kSpinFor; may_spin && Clock::now() < until;) {
    for (int i = 0; i < kPollsPerLook; ++i) {
      now = word.load(std::memory_order_acquire);
      if (now != old) return now;
      pause_core();
    }
  }
  while ((now = word.load(std::memory_order_acquire)) == old) {
    word.wait(old, std::memory_order_acquire);
  }
  return now;
}

}  // namespace bp::cpu

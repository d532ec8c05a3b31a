#pragma once
// How workers wait.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace bp::cpu {

// Within a step: longer than most items take; waking a sleeping core costs as much.
inline constexpr std::chrono::microseconds kSpinInStep{100};
// Between steps, when the core is wanted for other things.
inline constexpr std::chrono::microseconds kSpinForWork{30};

// Waits until `word` differs from `old`, and returns what it is then: polls for a while, then
// sleeps until notified. It never yields: a scheduler takes a yield for the end of the thread's
// time slice, and gives the core away for milliseconds where others want it.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old,
                         std::chrono::microseconds spin_for);

inline constexpr uint32_t kAllWaiting = UINT32_MAX;
// Wakes n of those that wait for a change of `word`, which has changed. Whether anyone waits,
// std::atomic looks up by a load, which the word's own store must not follow: who went to sleep
// between the two would sleep on.
void notify(std::atomic<uint32_t>& word, uint32_t n = kAllWaiting);

}  // namespace bp::cpu

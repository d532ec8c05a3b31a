#pragma once
// Waiting within a step.

#include <atomic>
#include <cstdint>

namespace bp::cpu {

// Waits until `word` differs from `old`, and returns what it is then: polls for a while where
// may_spin, then sleeps until notified. It never yields: a scheduler takes a yield for the end of
// the thread's time slice, and gives the core away for milliseconds where others want it.
uint32_t wait_for_change(const std::atomic<uint32_t>& word, uint32_t old, bool may_spin);

void pause_core();

}  // namespace bp::cpu

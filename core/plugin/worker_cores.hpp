#pragma once
// The cores that a team's workers compute on. Where another program takes a worker's core in the
// middle of its work, the others soon wait for it, for milliseconds at a time: one of them then
// lends it its own core and sleeps, and the worker goes home once it has nothing in hand.

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace bp::plugin {

// From now on the thread runs on this core alone. False where the system refuses.
bool keep_on(pthread_t thread, uint32_t core);

class WorkerCores {
 public:
  explicit WorkerCores(uint32_t n_workers);

  static constexpr uint32_t kAnywhere = ~0u;
  // Between jobs: worker `i` is that thread, with the affinity that it has now; its own core is
  // `home`, or whichever it is given.
  void meet(uint32_t i, pthread_t thread, uint32_t home);
  // Before a job, which calls worker `i` to it.
  void enter(uint32_t i);
  // By worker `i`, as all below: after its part of the job.
  void leave(uint32_t i);

  // In turn; others may wait for what it does between. begin_wait puts it on its own core again.
  void begin_work(uint32_t i);
  void begin_wait(uint32_t i);
  // Whether it is on a core lent to it until it waits.
  [[nodiscard]] bool is_away(uint32_t i) const;

  // While it waits: notes how long each of the others has computed.
  void look(uint32_t i);

  enum class Loan {
    kUntilWait,   // to one that works, until it waits
    kUntilLeave,  // to any, until it leaves the job
  };
  // While it waits: one of the workers that has not computed since the look comes to this core,
  // whose owner should sleep now. False where there is none.
  bool lend(uint32_t i, Loan loan);
  // When what it waited for has come: sends home whom it lent its core to.
  void take_back(uint32_t i);

 private:
  enum class State : uint32_t { kAbsent, kWaiting, kWorking, kLentUntilWait, kLentUntilLeave };
  static constexpr uint32_t kNobody = ~0u;

  struct alignas(64) Place {
    std::atomic<State> state{State::kAbsent};
    pthread_t thread{};
    cpu_set_t affinity{};
    uint32_t home = 0;
    std::atomic<uint32_t> lent_core{0};  // the last one
    // Of each worker, as it saw them.
    std::vector<std::chrono::nanoseconds> computed;
    std::chrono::steady_clock::time_point looked_at;
    // To whom it lent its core, what that worker was before, and what it became.
    uint32_t borrower = kNobody;
    State before = State::kAbsent;
    State lent = State::kAbsent;
  };

  static void settle(Place& place, State state);
  static void send_home(const Place& place);

  std::vector<Place> places_;
};

}  // namespace bp::plugin

#include "core/plugin/worker_cores.hpp"

#include <ctime>
#include <utility>

namespace bp::plugin {

namespace {

// A worker that computed less than this part of the time since a look is off its core.
constexpr int kOffCorePart = 8;

// Processor time of a thread; 0 where the system does not say.
std::chrono::nanoseconds computed_by(pthread_t thread) {
  clockid_t clock{};
  timespec now{};
  if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &now) != 0) return {};
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool keep_on_any(pthread_t thread, const cpu_set_t& cores) {
  return pthread_setaffinity_np(thread, sizeof cores, &cores) == 0;
}

cpu_set_t only(uint32_t core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  return one;
}

}  // namespace

bool keep_on(pthread_t thread, uint32_t core) {
  return keep_on_any(thread, only(core));
}

WorkerCores::WorkerCores(uint32_t n_workers) : places_(n_workers) {
  for (Place& place : places_) place.computed.resize(n_workers);
}

void WorkerCores::meet(uint32_t i, pthread_t thread, uint32_t home) {
  Place& place = places_[i];
  place.home = home;
  place.thread = thread;
  pthread_getaffinity_np(thread, sizeof place.affinity, &place.affinity);
}

void WorkerCores::enter(uint32_t i) {
  // One that is still leaving the job before stays what it is until it has left.
  State absent = State::kAbsent;
  places_[i].state.compare_exchange_strong(absent, State::kWaiting, std::memory_order_acq_rel);
}

void WorkerCores::leave(uint32_t i) {
  settle(places_[i], State::kAbsent);
}

void WorkerCores::begin_work(uint32_t i) {
  State waiting = State::kWaiting;
  places_[i].state.compare_exchange_strong(waiting, State::kWorking, std::memory_order_acq_rel);
}

void WorkerCores::begin_wait(uint32_t i) {
  Place& place = places_[i];
  const State state = place.state.load(std::memory_order_relaxed);
  if (state == State::kAbsent || state == State::kLentUntilLeave) return;
  settle(place, State::kWaiting);
}

bool WorkerCores::is_away(uint32_t i) const {
  return places_[i].state.load(std::memory_order_relaxed) == State::kLentUntilWait;
}

void WorkerCores::settle(Place& place, State state) {
  const State before = place.state.exchange(state, std::memory_order_acq_rel);
  // Whatever else may run at home: nobody waits for this worker now, or else lends it a core again.
  if (before == State::kLentUntilWait || before == State::kLentUntilLeave) send_home(place);
}

void WorkerCores::send_home(const Place& place) {
  cpu_set_t home = place.affinity;
  if (place.home != kAnywhere) {
    home = only(place.home);
  } else {
    CPU_CLR(place.lent_core.load(std::memory_order_relaxed), &home);
  }
  if (!CPU_EQUAL(&home, &place.affinity) && CPU_COUNT(&home) > 0) keep_on_any(place.thread, home);
  keep_on_any(place.thread, place.affinity);
}

void WorkerCores::look(uint32_t i) {
  Place& own = places_[i];
  for (uint32_t w = 0; w < places_.size(); ++w) {
    const bool is_there = places_[w].state.load(std::memory_order_acquire) != State::kAbsent;
    own.computed[w] = w != i && is_there ? computed_by(places_[w].thread) : own.computed[w].zero();
  }
  own.looked_at = std::chrono::steady_clock::now();
}

bool WorkerCores::lend(uint32_t i, Loan loan) {
  Place& own = places_[i];
  const auto since_look = std::chrono::steady_clock::now() - own.looked_at;
  const int core = sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE) return false;
  for (uint32_t w = 0; w < places_.size(); ++w) {
    Place& place = places_[w];
    State state = place.state.load(std::memory_order_acquire);
    const bool may_borrow =
        state == State::kWorking || (state == State::kWaiting && loan == Loan::kUntilLeave);
    if (w == i || !may_borrow) continue;
    const auto computed = computed_by(place.thread) - own.computed[w];
    if (computed * kOffCorePart > since_look) continue;
    // First said, then done: once it may run here it may do so before this thread goes on.
    own.before = state;
    own.lent = loan == Loan::kUntilLeave ? State::kLentUntilLeave : State::kLentUntilWait;
    if (!place.state.compare_exchange_strong(state, own.lent, std::memory_order_acq_rel)) continue;
    own.borrower = w;
    place.lent_core.store(static_cast<uint32_t>(core), std::memory_order_relaxed);
    const bool is_here = keep_on(place.thread, static_cast<uint32_t>(core));
    // It had come to wait on its own core meanwhile, thought that it was here, and went home.
    const bool is_lent = place.state.load(std::memory_order_acquire) == own.lent;
    if (is_here && is_lent) return true;
    if (is_here) send_home(place);
    take_back(i);
  }
  return false;
}

void WorkerCores::take_back(uint32_t i) {
  Place& own = places_[i];
  if (own.borrower == kNobody) return;
  Place& place = places_[std::exchange(own.borrower, kNobody)];
  State lent = own.lent;
  if (place.state.compare_exchange_strong(lent, own.before, std::memory_order_acq_rel))
    send_home(place);
}

}  // namespace bp::plugin

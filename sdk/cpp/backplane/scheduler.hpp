#pragma once
// Schedulers in C++: derive from Scheduler, give it a static function
//   Result<std::unique_ptr<Scheduler>> create(const Host&, const Params&)
// and register bp::scheduler_factory<MyScheduler>() with BP_PLUGIN.

#include <memory>

#include "backplane/plugin.hpp"
#include "backplane/scheduler.h"

namespace bp {

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Columns of the decision hold zeros when called.
  virtual Status schedule(const bp_snapshot& snapshot, bp_decision& decision) = 0;
};

namespace detail {

template <class S>
struct SchedulerAdapter {
  static Scheduler* cpp(bp_scheduler* s) { return reinterpret_cast<Scheduler*>(s); }

  static bp_status create(const bp_host* host, const bp_params* config, bp_scheduler** out,
                          bp_error* error) {
    return guarded(error, [&]() -> Status {
      BP_ASSIGN(std::unique_ptr<Scheduler> made, S::create(Host(host), Params(config)));
      *out = reinterpret_cast<bp_scheduler*>(made.release());
      return {};
    });
  }
  static void destroy(bp_scheduler* scheduler) { delete cpp(scheduler); }
  static bp_status schedule(bp_scheduler* scheduler, const bp_snapshot* snapshot,
                            bp_decision* decision, bp_error* error) {
    return guarded(error, [&]() -> Status {
      const bp_snapshot mine = copy_growable(snapshot);
      if (mine.required != 0) return unsupported("the snapshot requires an unknown feature");
      bp_decision columns = copy_growable(decision);
      return cpp(scheduler)->schedule(mine, columns);
    });
  }
};

}  // namespace detail

template <class S>
[[nodiscard]] constexpr bp_scheduler_factory scheduler_factory() {
  using A = detail::SchedulerAdapter<S>;
  return {sizeof(bp_scheduler_factory), 0, A::create, A::destroy, A::schedule};
}

}  // namespace bp

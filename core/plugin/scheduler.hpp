#pragma once
// A scheduler behind the C ABI.

#include <memory>

#include "backplane/scheduler.h"
#include "backplane/status.hpp"
#include "core/plugin/params.hpp"

namespace bp::plugin {

class SchedulerHandle {
 public:
  // `host` outlives the handle.
  static Result<SchedulerHandle> create(const bp_scheduler_factory* factory, const bp_host* host,
                                        const ParamMap& config);
  SchedulerHandle(SchedulerHandle&& other) noexcept;
  SchedulerHandle& operator=(SchedulerHandle&&) = delete;
  ~SchedulerHandle();

  Status schedule(const bp_snapshot& snapshot, bp_decision& decision) const;

 private:
  SchedulerHandle(const bp_scheduler_factory& factory, bp_scheduler* scheduler)
      : factory_(factory), scheduler_(scheduler) {}

  bp_scheduler_factory factory_;
  bp_scheduler* scheduler_;
};

}  // namespace bp::plugin

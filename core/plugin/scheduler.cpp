#include "core/plugin/scheduler.hpp"

#include "core/plugin/call.hpp"

namespace bp::plugin {

Result<SchedulerHandle> SchedulerHandle::create(const bp_scheduler_factory* factory,
                                                const bp_host* host, const ParamMap& config) {
  const bp_scheduler_factory table = copy_growable(factory);
  if (table.create == nullptr || table.destroy == nullptr || table.schedule == nullptr) {
    return invalid_argument(
        "a required function of bp_scheduler_factory (create, destroy, schedule) is missing");
  }
  const CParams params(config);
  bp_scheduler* scheduler = nullptr;
  BP_TRY(
      call([&](bp_error* error) { return table.create(host, params.get(), &scheduler, error); }));
  if (scheduler == nullptr) return internal_error("create succeeded without a scheduler");
  return SchedulerHandle(table, scheduler);
}

SchedulerHandle::SchedulerHandle(SchedulerHandle&& other) noexcept
    : factory_(other.factory_), scheduler_(std::exchange(other.scheduler_, nullptr)) {}

SchedulerHandle::~SchedulerHandle() {
  if (scheduler_ != nullptr) factory_.destroy(scheduler_);
}

Status SchedulerHandle::schedule(const bp_snapshot& snapshot, bp_decision& decision) const {
  return call(
      [&](bp_error* error) { return factory_.schedule(scheduler_, &snapshot, &decision, error); });
}

}  // namespace bp::plugin

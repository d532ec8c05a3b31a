// A scheduler that does nothing, rightly built: the tests' control.
#include "backplane/scheduler.hpp"

namespace {

class Nothing : public bp::Scheduler {
 public:
  static bp::Result<std::unique_ptr<bp::Scheduler>> create(const bp::Host&, const bp::Params&) {
    return std::unique_ptr<bp::Scheduler>(new Nothing);
  }
  bp::Status schedule(const bp_snapshot&, bp_decision&) override { return {}; }
};

constexpr bp_scheduler_factory kFactory = bp::scheduler_factory<Nothing>();

}  // namespace

BP_PLUGIN("good", "1.0.0", {BP_SCHEDULER_ID, &kFactory});

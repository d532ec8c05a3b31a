// One scheduler in two versions: a decision says which code made it.
#include "backplane/scheduler.hpp"

namespace {

class Versioned : public bp::Scheduler {
 public:
  static bp::Result<std::unique_ptr<bp::Scheduler>> create(const bp::Host&, const bp::Params&) {
    return std::unique_ptr<bp::Scheduler>(new Versioned);
  }
  bp::Status schedule(const bp_snapshot&, bp_decision& decision) override {
    decision.n_tokens[0] = MAJOR_VERSION;
    return {};
  }
};

constexpr bp_scheduler_factory kFactory = bp::scheduler_factory<Versioned>();

}  // namespace

#define TEXT_OF(x) #x
#define VERSION_TEXT(major) TEXT_OF(major) ".0.0"
BP_PLUGIN("versioned", VERSION_TEXT(MAJOR_VERSION), {BP_SCHEDULER_ID, &kFactory});

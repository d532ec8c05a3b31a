#pragma once
// Traces in memory, text files that go with the test, and schedulers written in the test.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>

#include "core/simulate/report.hpp"
#include "core/simulate/simulator.hpp"
#include "sdk/conformance/support/temporary_folder.hpp"
#include "tests/support/built_plugin.hpp"

namespace bp::testing {

class SimulateTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = path_of(name);
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  [[nodiscard]] std::string path_of(const std::string& name) const {
    return (folder_.path() / name).string();
  }

 private:
  conformance::TemporaryFolder folder_{"simulate"};
};

inline plugin::SchedulerHandle make_fcfs() {
  const Loaded fcfs = load_plugin("fcfs");
  return plugin::SchedulerHandle::create(
             fcfs.library->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), bare_host(),
             {{"watermark", 0.01}})
      .value();
}

// A scheduler that calls a function of the test; one at a time.
using Decide = std::function<void(const bp_snapshot&, bp_decision&)>;

inline plugin::SchedulerHandle make_scheduler(Decide decide) {
  static Decide current;
  current = std::move(decide);
  static const bp_scheduler_factory factory = {
      sizeof(bp_scheduler_factory), 0,
      [](const bp_host*, const bp_params*, bp_scheduler** out, bp_error*) -> bp_status {
        *out = reinterpret_cast<bp_scheduler*>(&current);
        return BP_OK;
      },
      [](bp_scheduler*) {},
      [](bp_scheduler*, const bp_snapshot* s, bp_decision* d, bp_error*) -> bp_status {
        current(*s, *d);
        return BP_OK;
      }};
  return plugin::SchedulerHandle::create(&factory, bare_host(), {}).value();
}

inline simulate::CostModel price_of_step(double us) {
  simulate::CostModel cost;
  cost.step = us;
  return cost;
}

inline simulate::Trace trace_of(std::vector<simulate::TraceRequest> requests,
                                std::vector<std::string> tenants = {""}) {
  simulate::Trace trace;
  trace.requests = std::move(requests);
  trace.tenants = std::move(tenants);
  return trace;
}

}  // namespace bp::testing

#pragma once
// What a simulation came to, for programs and for people.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/simulate/simulator.hpp"

namespace bp::simulate {

// What was simulated.
struct Setting {
  std::string trace;      // path
  std::string scheduler;  // the plugin's id
  Limits limits;
  CostModel cost;
};

// Every figure under a dotted path that expectations name: ttft_ms.p99, priorities.5.ttft_ms.p50.
// Where there are no samples, a figure is null.
nlohmann::ordered_json make_report(const Setting& setting, const Trace& trace,
                                   const Outcome& outcome);

// The same for a terminal, with the busiest tenants only.
std::string format_report(const nlohmann::ordered_json& report);

}  // namespace bp::simulate

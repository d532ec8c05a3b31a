// backplane simulate: a scheduler plugin against a trace, without a model.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/cli/commands.hpp"
#include "core/cli/progress.hpp"
#include "core/config/plugin_keys.hpp"
#include "core/plugin/catalog.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/scheduler.hpp"
#include "core/runtime/plugin_folders.hpp"
#include "core/simulate/plot.hpp"
#include "core/simulate/report.hpp"

namespace bp::cli {

namespace {

// "key=value" as the lines of a scheduler's section would be.
Result<plugin::ParamMap> read_settings(const std::vector<std::string>& settings,
                                       const plugin::Manifest& manifest) {
  std::string text;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return invalid_argument(fmt::format("--set {}: is not KEY=VALUE", setting));
    }
    text += setting.substr(0, equals) + ": " + setting.substr(equals + 1) + "\n";
  }
  BP_ASSIGN(const base::Yaml section, base::Yaml::load_text(text, "--set"));
  return config::read_plugin_keys(section, {}, manifest.config);
}

Result<plugin::SchedulerHandle> make_scheduler(const SimulateOptions& options,
                                               const bp_host* host) {
  BP_ASSIGN(const plugin::Catalog catalog,
            plugin::Catalog::scan(runtime::plugin_folders(options.plugin_path)));
  BP_ASSIGN(const auto* entry, catalog.find(options.scheduler, BP_SCHEDULER_ID));
  BP_ASSIGN(const plugin::ParamMap config, read_settings(options.settings, entry->manifest));
  BP_ASSIGN(const auto library, plugin::Library::load(entry->manifest));
  auto scheduler = plugin::SchedulerHandle::create(
      library->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), host, config);
  if (!scheduler.ok()) {
    return scheduler.status().with_context(fmt::format("plugin '{}'", options.scheduler));
  }
  return scheduler;
}

// The command line's word counts, then the trace's.
Result<simulate::CostModel> choose_cost(const SimulateOptions& options,
                                        const simulate::Trace& trace) {
  if (!options.cost.empty()) return simulate::load_cost_model(options.cost);
  return trace.cost.value_or(simulate::default_cost_model());
}

// What is left of a plot that could not be written would pass for one.
Status write_plot(const std::string& path, const std::string& svg) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  const bool is_open = file.is_open();
  file << svg;
  file.close();
  if (file) return {};
  const Status status =
      io_error(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  std::error_code ignored;
  if (is_open && std::filesystem::is_regular_file(path, ignored)) {
    std::filesystem::remove(path, ignored);
  }
  return status;
}

void print(const nlohmann::ordered_json& report, bool json) {
  if (json) {
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", simulate::format_report(report));
  }
}

}  // namespace

Status simulate(const SimulateOptions& options) {
  const plugin::HostServices host;
  BP_ASSIGN(const plugin::SchedulerHandle scheduler, make_scheduler(options, host.get()));
  BP_ASSIGN(const simulate::Trace trace, simulate::load_trace(options.trace, options.seed));
  simulate::Setting setting{options.trace, options.scheduler, {}, {}};
  BP_ASSIGN(setting.cost, choose_cost(options, trace));
  trace.limits.apply_to(setting.limits);
  options.limits.apply_to(setting.limits);
  auto outcome = [&] {
    const ProgressBar progress("simulating");
    return simulate::simulate(trace, setting.limits, setting.cost, scheduler, progress.c());
  }();
  if (!outcome.ok()) return outcome.status();
  const auto report = simulate::make_report(setting, trace, *outcome);
  print(report, options.json);
  if (!options.plot.empty()) {
    BP_TRY(write_plot(options.plot, simulate::plot(setting, trace, *outcome)));
  }
  const auto unmet = simulate::unmet(trace.expectations, options.scheduler, report);
  for (const std::string& sentence : unmet) fmt::print(stderr, "not as expected: {}\n", sentence);
  if (unmet.empty()) return {};
  return invalid_argument(fmt::format("{} of the trace's {} expectations are not met", unmet.size(),
                                      trace.expectations.size()));
}

}  // namespace bp::cli

// Every scheduler plugin that is built, on every trace of tests/traces that states expectations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/config/plugin_keys.hpp"
#include "core/plugin/catalog.hpp"
#include "fixture.hpp"

namespace bp::testing {
namespace {

std::vector<std::string> trace_files() {
  std::vector<std::string> files;
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(source == nullptr ? "." : source) + "/tests/traces")) {
    if (entry.path().filename().string().starts_with("simulate-")) {
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

void check(const plugin::Manifest& manifest, const std::string& file) {
  const auto library = plugin::Library::load(manifest);
  ASSERT_TRUE(library.ok()) << library.status().message();
  const auto keys = config::default_keys(manifest.config);
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  const auto scheduler = plugin::SchedulerHandle::create(
      (*library)->factory<bp_scheduler_factory>(BP_SCHEDULER_ID), bare_host(), *keys);
  ASSERT_TRUE(scheduler.ok()) << scheduler.status().message();
  const auto trace = simulate::load_trace(file, std::nullopt);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  ASSERT_FALSE(trace->expectations.empty()) << file;
  ASSERT_TRUE(trace->cost.has_value()) << file << ": needs prices of its own";
  simulate::Setting setting{file, manifest.id, {}, *trace->cost};
  trace->limits.apply_to(setting.limits);
  const auto outcome =
      simulate::simulate(*trace, setting.limits, setting.cost, *scheduler, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const auto report = simulate::make_report(setting, *trace, *outcome);
  const auto unmet = simulate::unmet(trace->expectations, manifest.id, report);
  for (const auto& sentence : unmet) ADD_FAILURE() << sentence;
  if (!unmet.empty()) std::cout << simulate::format_report(report);
}

TEST(SimulatedTracesTest, AreServedAsExpectedByEveryScheduler) {
  const char* build = std::getenv("BACKPLANE_BUILD_DIR");
  ASSERT_NE(build, nullptr);
  const auto catalog = plugin::Catalog::scan({std::string(build) + "/lib/backplane"});
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  const auto schedulers = catalog->of_kind(BP_SCHEDULER_ID);
  const auto files = trace_files();
  EXPECT_GE(schedulers.size(), 1u);
  EXPECT_GE(files.size(), 7u);
  for (const auto* entry : schedulers) {
    for (const auto& file : files) {
      SCOPED_TRACE(entry->manifest.id + " on " + file);
      check(entry->manifest, file);
    }
  }
}

}  // namespace
}  // namespace bp::testing

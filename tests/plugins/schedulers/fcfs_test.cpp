#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "backplane/plugin.hpp"
#include "core/base/yaml.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/manifest.hpp"
#include "simulation.hpp"

namespace bp::testing {
namespace {

plugin::SchedulerHandle make_fcfs(double watermark = 0.01) {
  static const bp_host host = make_growable<bp_host>();
  const char* build = std::getenv("BACKPLANE_BUILD_DIR");
  const std::string folder = build == nullptr ? "." : build;
  const auto manifest = plugin::read_manifest(folder + "/lib/backplane/fcfs.plugin.yaml").value();
  const auto library = plugin::Library::load(manifest).value();
  return plugin::SchedulerHandle::create(library->factory<bp_scheduler_factory>(BP_SCHEDULER_ID),
                                         &host, {{"watermark", watermark}})
      .value();
}

Trace random_trace(uint32_t seed) {
  std::mt19937 random(seed);
  Trace trace;
  trace.block_size = 1u << random() % 5;
  trace.max_step_tokens = 1 + random() % 64;
  trace.max_sequences = 1 + random() % 16;
  uint32_t at = 0, largest = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    at += random() % 4 == 0 ? random() % 20 : 0;
    const SimulatedRequest request{at, 1 + static_cast<uint32_t>(random() % 100),
                                   1 + static_cast<uint32_t>(random() % 60), 0};
    largest = std::max(largest, request.prompt + request.generate);
    trace.requests.push_back(request);
  }
  // From a pool that just holds the largest one to a roomy one.
  trace.n_blocks = 1 + (largest + trace.block_size - 1) / trace.block_size * (1 + random() % 6);
  return trace;
}

// Enough for one request after the other, each computed as often as preemption may ask for.
uint32_t generous_steps(const Trace& trace) {
  uint32_t steps = 100;
  for (const auto& r : trace.requests) {
    steps += r.at / 4 + 20 * (r.prompt / trace.max_step_tokens + 1 + r.generate);
  }
  return steps;
}

TEST(FcfsTest, RandomTracesAreValidFinishAndRepeat) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed);
    const Simulation first = simulate(make_fcfs(), trace, generous_steps(trace));
    EXPECT_EQ(first.invalid, "") << "seed " << seed;
    EXPECT_TRUE(first.all_finished) << "seed " << seed;
    EXPECT_EQ(simulate(make_fcfs(), trace, generous_steps(trace)).steps, first.steps);
  }
}

TEST(FcfsTest, AnEarlierRequestIsNeverOvertakenByAnEqualOne) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Trace trace = random_trace(seed);
    for (auto& request : trace.requests) request.prompt = request.generate = 20;
    const Simulation result = simulate(make_fcfs(), trace, generous_steps(trace));
    ASSERT_TRUE(result.all_finished) << seed;
    EXPECT_TRUE(std::ranges::is_sorted(result.finished_at)) << seed;
  }
}

TEST(FcfsTest, TheWatermarkKeepsBlocksFree) {
  Trace trace;
  trace.n_blocks = 21;
  trace.max_step_tokens = 64;
  trace.requests = {{0, 40, 4, 0}, {0, 28, 4, 0}};  // 10 and 7 blocks of 20
  EXPECT_EQ(simulate(make_fcfs(0.0), trace, 1).steps[0], "0:40 1:24");
  EXPECT_EQ(simulate(make_fcfs(0.5), trace, 1).steps[0], "0:40");
}

Result<Trace> read_trace(const base::Yaml& file, std::vector<std::string>& steps) {
  BP_TRY(file.expect_keys({"about", "n_blocks", "block_size", "max_step_tokens", "max_sequences",
                           "requests", "steps"}));
  Trace trace;
  const auto number = [](const base::Yaml& map, const char* key, uint32_t& out) -> Status {
    const auto node = map.find(key);
    if (!node) return {};
    BP_ASSIGN(const int64_t value, node->as_int(0, 1'000'000));
    out = static_cast<uint32_t>(value);
    return {};
  };
  BP_TRY(number(file, "n_blocks", trace.n_blocks));
  BP_TRY(number(file, "block_size", trace.block_size));
  BP_TRY(number(file, "max_step_tokens", trace.max_step_tokens));
  BP_TRY(number(file, "max_sequences", trace.max_sequences));
  const auto requests = file.find("requests");
  if (!requests) return file.error("requests are missing");
  BP_ASSIGN(const auto items, requests->items());
  for (const base::Yaml& item : items) {
    SimulatedRequest request;
    uint32_t priority = 0;
    BP_TRY(item.expect_keys({"at", "prompt", "generate", "priority"}));
    BP_TRY(number(item, "at", request.at));
    BP_TRY(number(item, "prompt", request.prompt));
    BP_TRY(number(item, "generate", request.generate));
    BP_TRY(number(item, "priority", priority));
    request.priority = static_cast<int32_t>(priority);
    trace.requests.push_back(request);
  }
  const auto expected = file.find("steps");
  if (!expected) return file.error("steps are missing");
  BP_ASSIGN(steps, expected->as_strings());
  return trace;
}

TEST(FcfsTest, FollowsTheTraces) {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  uint32_t n_traces = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(source) + "/tests/traces")) {
    if (!entry.path().filename().string().starts_with("fcfs-")) continue;
    const auto file = base::Yaml::load_file(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status().message();
    std::vector<std::string> steps;
    const auto trace = read_trace(*file, steps);
    ASSERT_TRUE(trace.ok()) << trace.status().message();
    const Simulation result = simulate(make_fcfs(), *trace, 1000);
    EXPECT_EQ(result.invalid, "") << entry.path();
    EXPECT_THAT(result.steps, ::testing::ElementsAreArray(steps)) << entry.path();
    ++n_traces;
  }
  EXPECT_GE(n_traces, 4u);
}

}  // namespace
}  // namespace bp::testing

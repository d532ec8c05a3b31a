#include "core/simulate/cost_model.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include <fmt/format.h>

#include "fixture.hpp"

namespace bp::testing {
namespace {

using simulate::CostModel;
using simulate::load_cost_model;
using ::testing::HasSubstr;

class CostModelTest : public SimulateTest {};

// What `backplane bench --prompt 256 --generate 32 --json` prints on a machine with these prices.
std::string bench_output(const CostModel& cost) {
  std::string rows;
  for (const uint64_t depth : {0, 1000}) {
    const double prefill_us = cost.step_us({0, 0, 256, 256 * depth + 256 * 257 / 2});
    rows +=
        fmt::format(R"({{"kind": "prefill", "sequences": 1, "depth": {}, "tokens_per_s": {}}},)",
                    depth, 256e6 / prefill_us);
    for (const uint64_t n : {1, 4, 16}) {
      const uint64_t context = (depth == 0 && n > 1 ? 128 : depth) + 16;
      rows += fmt::format(
          R"({{"kind": "decode", "sequences": {}, "depth": {}, "tokens_per_s": {}}},)", n, depth,
          static_cast<double>(n) * 1e6 / cost.step_us({n, n * context, 0, 0}));
    }
  }
  rows.pop_back();
  return R"({"model": "m.gguf", "prompt": 256, "generate": 32, "machine": {"cpu": "c", "threads": 2,)"
         R"( "bandwidth_gb_s": 10, "int8_tops": 1}, "results": [)" +
         rows + "]}";
}

TEST_F(CostModelTest, FindsThePricesBehindABenchmark) {
  CostModel cost;
  cost.step = 9000;
  cost.decode_token = 200;
  cost.decode_context = 0.75;
  cost.prefill_token = 1500;
  cost.prefill_context = 0.5;
  const auto found = load_cost_model(write("bench.json", bench_output(cost)));
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_NEAR(found->step, 9000, 1);
  EXPECT_NEAR(found->decode_token, 200, 1);
  EXPECT_NEAR(found->decode_context, 0.75, 1e-3);
  EXPECT_NEAR(found->prefill_token, 1500, 1);
  EXPECT_NEAR(found->prefill_context, 0.5, 1e-3);
  EXPECT_THAT(found->source,
              HasSubstr("m.gguf on c, 2 threads; fits the 8 measurements within 0 %"));
}

TEST_F(CostModelTest, TheDefaultIsTheFitOfTheRecordedBenchmark) {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const auto fit =
      load_cost_model(std::string(source) + "/bench/results/smollm2-135m-q4_1-one-core.json");
  ASSERT_TRUE(fit.ok()) << fit.status().message();
  const CostModel model = simulate::default_cost_model();
  const auto expect_near = [](double value, double fitted) {
    EXPECT_NEAR(value, fitted, 0.01 * fitted);
  };
  expect_near(model.step, fit->step);
  expect_near(model.decode_token, fit->decode_token);
  expect_near(model.decode_context, fit->decode_context);
  expect_near(model.prefill_token, fit->prefill_token);
  expect_near(model.prefill_context, fit->prefill_context);
}

TEST_F(CostModelTest, ReadsPrices) {
  const auto cost =
      load_cost_model(write("cost.yaml", "step_us: {step: 5, decode_context: 0.5}\n"));
  ASSERT_TRUE(cost.ok()) << cost.status().message();
  EXPECT_DOUBLE_EQ(cost->step_us({1, 10, 100, 1000}), 10);
}

TEST_F(CostModelTest, SaysWhatAFileLacks) {
  const auto error = [&](const std::string& text) {
    const auto cost = load_cost_model(write("cost.json", text));
    EXPECT_FALSE(cost.ok()) << text;
    return cost.status().message();
  };
  EXPECT_THAT(error("{}"), HasSubstr("step_us"));
  EXPECT_THAT(error(R"({"results": []})"), HasSubstr("at least two numbers of sequences"));
  const std::string prefill = R"({"kind": "prefill", "tokens_per_s": 10})";
  const std::string decode = R"({"kind": "decode", "sequences": 4, "tokens_per_s": 10})";
  EXPECT_THAT(error(R"({"results": [)" + prefill + "," + decode + "]}"),
              HasSubstr("at least two numbers of sequences"));
  EXPECT_THAT(error(R"({"results": [{"kind": "decode", "tokens_per_s": 0}]})"),
              HasSubstr("tokens_per_s"));
  EXPECT_THAT(error(R"({"results": [{"kind": "dance", "tokens_per_s": 1}]})"), HasSubstr("kind"));
  EXPECT_THAT(error("step_us: {step: .inf}"), HasSubstr("step"));
}

}  // namespace
}  // namespace bp::testing

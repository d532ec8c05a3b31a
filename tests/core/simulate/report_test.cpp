#include "core/simulate/report.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/simulate/expectation.hpp"
#include "core/simulate/plot.hpp"
#include "core/simulate/svg.hpp"
#include "fixture.hpp"

namespace bp::testing {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

simulate::Trace mixed_trace() {
  std::vector<simulate::TraceRequest> requests(40);
  for (uint32_t i = 0; i < requests.size(); ++i) {
    requests[i].arrival_us = i * 300;
    requests[i].n_prompt = 30;
    requests[i].n_output = 1 + i % 5;
    requests[i].priority = i % 2 == 0 ? 5 : -1;
    requests[i].tenant = i % 3;
  }
  return trace_of(std::move(requests), {"<a&b>", "b", "c"});
}

struct Finished {
  simulate::Trace trace = mixed_trace();
  simulate::Setting setting{"<trace>", "fcfs", {}, price_of_step(1000)};
  simulate::Outcome outcome =
      simulate::simulate(trace, setting.limits, setting.cost, make_fcfs(), nullptr).value();
};

TEST(ReportTest, AgreesWithTheRequests) {
  const Finished run;
  const auto report = simulate::make_report(run.setting, run.trace, run.outcome);
  std::vector<uint64_t> ttft;
  for (size_t i = 0; i < run.trace.requests.size(); ++i) {
    ttft.push_back(run.outcome.requests[i].first_token_us - run.trace.requests[i].arrival_us);
  }
  std::ranges::sort(ttft);
  EXPECT_DOUBLE_EQ(report["ttft_ms"]["p50"], static_cast<double>(ttft[19]) * 1e-3);
  EXPECT_DOUBLE_EQ(report["ttft_ms"]["p99"], static_cast<double>(ttft[39]) * 1e-3);
  EXPECT_EQ(report["requests"]["finished"], 40);
  EXPECT_EQ(report["priorities"].begin().key(), "5");
  EXPECT_EQ(report["priorities"]["-1"]["requests"], 20);
  EXPECT_EQ(report["tenants"]["b"]["requests"], 13);
  const double seconds = report["duration_s"];
  EXPECT_DOUBLE_EQ(report["throughput"]["requests_per_s"], 40 / seconds);
}

TEST(ReportTest, IsReadableWithoutASingleFinishedRequest) {
  simulate::Trace trace = trace_of({simulate::TraceRequest()});
  trace.requests[0].n_prompt = simulate::kMostTokens;
  simulate::Setting setting{"t", "fcfs", {}, price_of_step(1000)};
  const auto outcome =
      simulate::simulate(trace, setting.limits, setting.cost, make_fcfs(), nullptr).value();
  const auto report = simulate::make_report(setting, trace, outcome);
  EXPECT_TRUE(report["ttft_ms"]["p99"].is_null());
  EXPECT_THAT(simulate::format_report(report), HasSubstr("0 of 1 requests finished"));
  EXPECT_THAT(simulate::plot(setting, trace, outcome), HasSubstr("</svg>"));
}

std::vector<std::string> unmet(const std::string& text, const std::string& plugin = "") {
  const auto expectation = simulate::parse_expectation(text, plugin);
  EXPECT_TRUE(expectation.ok()) << expectation.status().message();
  const ordered_json report = {{"ttft_ms", {{"p99", 12.5}, {"p50", 3}}}, {"fairness", nullptr}};
  return simulate::unmet({*expectation}, "fcfs", report);
}

TEST(ExpectationTest, ComparesMetricsWithNumbersAndMetrics) {
  for (const char* met : {"ttft_ms.p99 <= 12.5", "ttft_ms.p99 > 12", "ttft_ms.p50 == 3",
                          "ttft_ms.p50 < ttft_ms.p99", "ttft_ms.p99 >= ttft_ms.p50"}) {
    EXPECT_TRUE(unmet(met).empty()) << met;
  }
  for (const char* missed : {"ttft_ms.p99 < 12.5", "ttft_ms.p50 >= 4", "ttft_ms.p99 == 12",
                             "ttft_ms.p99 <= ttft_ms.p50"}) {
    EXPECT_EQ(unmet(missed).size(), 1u) << missed;
  }
  EXPECT_THAT(unmet("fairness >= 0")[0], HasSubstr("no number 'fairness'"));
  EXPECT_THAT(unmet("ttft_ms.p98 >= 0")[0], HasSubstr("no number 'ttft_ms.p98'"));
  EXPECT_THAT(unmet("ttft_ms.p99 <= 1")[0], HasSubstr("it is 12.5"));
  EXPECT_TRUE(unmet("ttft_ms.p99 <= 1", "another").empty());
  EXPECT_EQ(unmet("ttft_ms.p99 <= 1", "fcfs").size(), 1u);
}

TEST(ExpectationTest, SaysHowOneIsWritten) {
  for (const char* wrong : {"", "ttft_ms.p99", "a <= ", "a <= 1 2", "a => 1", "a is 1"}) {
    const auto expectation = simulate::parse_expectation(wrong, "");
    ASSERT_FALSE(expectation.ok()) << wrong;
    EXPECT_THAT(expectation.status().message(), HasSubstr("METRIC COMPARISON NUMBER"));
  }
}

// Names of elements nest, attributes are quoted, and text has no bare '<' or '&'. Empty when well
// formed, else what is wrong.
std::string flaw(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const auto entity = xml.substr(at, 5);
      if (!entity.starts_with("&lt;") && !entity.starts_with("&gt;") && entity != "&amp;") {
        return "a bare & at " + xml.substr(at, 20);
      }
    }
    if (xml[at++] != '<') continue;
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "an open tag";
    const std::string tag = xml.substr(at, end - at);
    if (tag.find('<') != std::string::npos) return "a < inside a tag";
    if (std::ranges::count(tag, '"') % 2 != 0) return "an open quote in " + tag;
    at = end + 1;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return "wrong end " + tag;
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  return open.empty() ? "" : "never ended: " + open.back();
}

TEST(PlotTest, IsWellFormedAndHoldsEveryCurve) {
  const Finished run;
  const std::string svg = simulate::plot(run.setting, run.trace, run.outcome);
  EXPECT_EQ(flaw(svg), "");
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, HasSubstr("&lt;trace&gt;"));
  for (const char* name : {"priority 5", "priority -1", "running", "waiting", "KV blocks used"}) {
    EXPECT_THAT(svg, HasSubstr(name));
  }
}

TEST(SvgTest, BearsAnyPoints) {
  const std::vector<std::vector<std::pair<double, double>>> cases = {
      {}, {{0, 0}}, {{1, 1}}, {{-5, 2}, {0, 3}}, {{1e-9, 1}, {1e12, 1}}, {{3, 0}, {3, 0}}};
  for (const auto& points : cases) {
    for (const bool log_x : {false, true}) {
      const std::string svg = simulate::draw({{"t", "x", "y", {{"c", "#000", points}}, log_x, 0}});
      EXPECT_EQ(flaw(svg), "");
      EXPECT_THAT(svg, Not(HasSubstr("nan")));
      EXPECT_THAT(svg, Not(HasSubstr("inf")));
    }
  }
}

}  // namespace
}  // namespace bp::testing

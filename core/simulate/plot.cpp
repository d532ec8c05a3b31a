#include "core/simulate/plot.hpp"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "core/simulate/percentiles.hpp"
#include "core/simulate/svg.hpp"

namespace bp::simulate {

namespace {

constexpr const char* kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"};
constexpr size_t kMostCurves = std::size(kColours);
constexpr int kPoints = 250;

// The fraction of samples (microseconds) that do not exceed x (milliseconds).
template <class Samples>
Curve distribution(std::string name, const char* colour, const Samples& samples) {
  Curve curve{std::move(name), colour, {}};
  for (int i = 1; i <= kPoints && samples.count() > 0; ++i) {
    const double q = static_cast<double>(i) / kPoints;
    curve.points.emplace_back(samples.quantile(q) * 1e-3, q);
  }
  return curve;
}

// All requests, and each priority where there are few.
std::vector<Curve> first_token_curves(const Trace& trace, const Outcome& outcome) {
  std::map<int32_t, std::vector<uint64_t>, std::greater<>> by_priority;
  std::vector<uint64_t> all;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    if (outcome.requests[i].refused) continue;
    all.push_back(outcome.requests[i].first_token_us - request.arrival_us);
    by_priority[request.priority].push_back(all.back());
  }
  std::vector<Curve> curves = {distribution("all", kColours[0], SortedSamples(std::move(all)))};
  if (by_priority.size() < 2 || by_priority.size() >= kMostCurves) return curves;
  for (auto& [priority, samples] : by_priority) {
    curves.push_back(distribution(fmt::format("priority {}", priority), kColours[curves.size()],
                                  SortedSamples(std::move(samples))));
  }
  return curves;
}

Chart load_chart(const Setting& setting, const Outcome& outcome) {
  Curve running{"running", kColours[0], {}}, waiting{"waiting", kColours[1], {}};
  Curve blocks{"KV blocks used, %", kColours[2], {}};
  const double bucket_s = static_cast<double>(outcome.timeline.bucket_us()) * 1e-6;
  double at_s = bucket_s / 2;
  for (const Load& load : outcome.timeline.means()) {
    running.points.emplace_back(at_s, load.running);
    waiting.points.emplace_back(at_s, load.waiting);
    blocks.points.emplace_back(at_s, 100 * load.used_blocks / setting.limits.n_blocks);
    at_s += bucket_s;
  }
  return {"Requests and KV memory over time", "seconds", "", {running, waiting, blocks}};
}

Chart throughput_chart(const Outcome& outcome) {
  Curve tokens{"prompt and output tokens/s", kColours[3], {}};
  const double bucket_s = static_cast<double>(outcome.timeline.bucket_us()) * 1e-6;
  double at_s = bucket_s / 2;
  for (const Load& load : outcome.timeline.means()) {
    tokens.points.emplace_back(at_s, load.tokens);
    at_s += bucket_s;
  }
  return {"Tokens computed over time", "seconds", "", {tokens}};
}

}  // namespace

std::string plot(const Setting& setting, const Trace& trace, const Outcome& outcome) {
  Chart first{
      fmt::format("Time to first token: {}, scheduler '{}'", setting.trace, setting.scheduler),
      "milliseconds",
      "",
      first_token_curves(trace, outcome),
      true,
      1};
  Chart gaps{"Time between tokens",
             "milliseconds",
             "",
             {distribution("all", kColours[0], outcome.inter_token_us)},
             true,
             1};
  return draw({first, gaps, load_chart(setting, outcome), throughput_chart(outcome)});
}

}  // namespace bp::simulate

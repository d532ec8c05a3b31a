#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/simulate/report.hpp"

namespace bp::simulate {

namespace {

using Json = nlohmann::ordered_json;
using Out = std::back_insert_iterator<std::string>;

constexpr size_t kShownTenants = 10;

std::string number(const Json& value, int digits, double scale = 1) {
  return value.is_number() ? fmt::format("{:.{}f}", value.get<double>() * scale, digits) : "-";
}

uint64_t whole(const Json& value) {
  return value.get<uint64_t>();
}

void latency_row(Out out, const char* name, const Json& p) {
  fmt::format_to(out, "{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}\n", name, number(p["mean"], 1),
                 number(p["p50"], 1), number(p["p90"], 1), number(p["p99"], 1),
                 number(p["max"], 1));
}

void latencies(Out out, const Json& r) {
  fmt::format_to(out, "\n{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "MILLISECONDS", "MEAN",
                 "P50", "P90", "P99", "MAX");
  latency_row(out, "time to first token", r["ttft_ms"]);
  latency_row(out, "between tokens", r["inter_token_ms"]);
  latency_row(out, "whole request", r["e2e_ms"]);
}

void heading(Out out, const Json& r) {
  const Json& n = r["requests"];
  const Json& t = r["throughput"];
  fmt::format_to(out, "{} on scheduler '{}'\ncost model: {}\n\n", r["trace"].get<std::string>(),
                 r["scheduler"].get<std::string>(), r["cost_model"]["source"].get<std::string>());
  fmt::format_to(out, "{} of {} requests finished in {} s, {} % of it busy\n", whole(n["finished"]),
                 whole(n["total"]), number(r["duration_s"], 1), number(r["busy_ratio"], 0, 100));
  if (whole(n["refused"]) > 0) {
    fmt::format_to(out, "{} refused: they are larger than the KV memory\n", whole(n["refused"]));
  }
  if (whole(n["skipped_rows"]) > 0) {
    fmt::format_to(out, "{} rows left out: without prompt or output\n", whole(n["skipped_rows"]));
  }
  fmt::format_to(out, "{} requests/s, {} prompt tokens/s, {} output tokens/s\n",
                 number(t["requests_per_s"], 2), number(t["prompt_tokens_per_s"], 0),
                 number(t["output_tokens_per_s"], 0));
  fmt::format_to(out, "{} steps of {} tokens\n", whole(r["steps"]),
                 number(r["tokens_per_step"], 1));
}

void counts(Out out, const Json& r) {
  const Json& cache = r["prefix_cache"];
  fmt::format_to(out, "\npreemptions        {} ({} tokens computed again)\n",
                 whole(r["preemptions"]), whole(r["recomputed_tokens"]));
  fmt::format_to(out, "invalid decisions  {}\n", whole(r["invalid_decisions"]));
  if (r["first_invalid_decision"].is_string()) {
    fmt::format_to(out, "                   the first in {}\n",
                   r["first_invalid_decision"].get<std::string>());
  }
  fmt::format_to(out, "prefix cache       {} of {} prompt tokens found ({} %)\n",
                 whole(cache["hit_tokens"]), whole(cache["queried_tokens"]),
                 number(cache["hit_ratio"], 1, 100));
  fmt::format_to(out, "KV blocks          {} of {} at most\n", whole(r["most_used_blocks"]),
                 whole(r["limits"]["blocks"]));
  fmt::format_to(out, "before the door    {} requests at most, beyond the queue of {}\n",
                 whole(r["longest_line"]), whole(r["limits"]["max_queue"]));
  fmt::format_to(out, "fairness           {} (Jain's index of competing tenants)\n",
                 number(r["fairness"], 3));
}

void priorities(Out out, const Json& r) {
  if (r["priorities"].size() < 2) return;
  fmt::format_to(out, "\n{:<10} {:>10} {:>14} {:>14} {:>16}\n", "PRIORITY", "REQUESTS",
                 "TTFT MS P50", "TTFT MS P99", "MS/TOKEN P50");
  for (const auto& [name, row] : r["priorities"].items()) {
    fmt::format_to(out, "{:<10} {:>10} {:>14} {:>14} {:>16}\n", name, whole(row["requests"]),
                   number(row["ttft_ms"]["p50"], 1), number(row["ttft_ms"]["p99"], 1),
                   number(row["output_token_ms"]["p50"], 1));
  }
}

void tenants(Out out, const Json& r) {
  if (r["tenants"].size() < 2) return;
  std::vector<std::pair<std::string, const Json*>> rows;
  for (const auto& [name, row] : r["tenants"].items()) rows.emplace_back(name, &row);
  std::ranges::stable_sort(rows, std::ranges::greater(),
                           [](const auto& row) { return whole((*row.second)["requests"]); });
  const size_t n_shown = std::min(rows.size(), kShownTenants);
  fmt::format_to(out, "\n{:<16} {:>10} {:>14} {:>14} {:>22}\n", "TENANT", "REQUESTS", "TTFT MS P50",
                 "TTFT MS P99", "TOKENS/S COMPETING");
  for (size_t i = 0; i < n_shown; ++i) {
    const Json& row = *rows[i].second;
    fmt::format_to(out, "{:<16} {:>10} {:>14} {:>14} {:>22}\n", rows[i].first,
                   whole(row["requests"]), number(row["ttft_ms"]["p50"], 1),
                   number(row["ttft_ms"]["p99"], 1), number(row["tokens_per_s_competing"], 0));
  }
  if (rows.size() > n_shown) fmt::format_to(out, "and {} more\n", rows.size() - n_shown);
}

}  // namespace

std::string format_report(const Json& report) {
  std::string text;
  const Out out(text);
  heading(out, report);
  latencies(out, report);
  counts(out, report);
  priorities(out, report);
  tenants(out, report);
  return text;
}

}  // namespace bp::simulate

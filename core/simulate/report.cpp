#include "core/simulate/report.hpp"

#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/simulate/percentiles.hpp"

namespace bp::simulate {

namespace {

using Json = nlohmann::ordered_json;

// The requests of one priority, or of one tenant.
struct Group {
  std::vector<uint64_t> ttft_us, e2e_us;
  std::vector<uint64_t> per_token_us;  // mean gap between the tokens of a request
  uint64_t n_prompt = 0, n_output = 0;

  void add(const TraceRequest& r, const RequestOutcome& o) {
    ttft_us.push_back(o.first_token_us - r.arrival_us);
    e2e_us.push_back(o.finish_us - r.arrival_us);
    if (r.n_output > 1) per_token_us.push_back((o.finish_us - o.first_token_us) / (r.n_output - 1));
    n_prompt += r.n_prompt;
    n_output += r.n_output;
  }
};

// Microseconds in, milliseconds out.
template <class Samples>
Json percentiles_ms(const Samples& samples) {
  if (samples.count() == 0) {
    return {
        {"mean", nullptr}, {"p50", nullptr}, {"p90", nullptr}, {"p99", nullptr}, {"max", nullptr}};
  }
  return {{"mean", samples.mean() * 1e-3},
          {"p50", samples.quantile(0.5) * 1e-3},
          {"p90", samples.quantile(0.9) * 1e-3},
          {"p99", samples.quantile(0.99) * 1e-3},
          {"max", static_cast<double>(samples.max()) * 1e-3}};
}

Json group_json(Group group) {
  const size_t n = group.ttft_us.size();
  return {{"requests", n},
          {"prompt_tokens", group.n_prompt},
          {"output_tokens", group.n_output},
          {"ttft_ms", percentiles_ms(SortedSamples(std::move(group.ttft_us)))},
          {"output_token_ms", percentiles_ms(SortedSamples(std::move(group.per_token_us)))},
          {"e2e_ms", percentiles_ms(SortedSamples(std::move(group.e2e_us)))}};
}

template <class Key>
std::map<Key, Group> group_by(const Trace& trace, const Outcome& outcome, Key TraceRequest::*key) {
  std::map<Key, Group> groups;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    if (outcome.requests[i].refused) continue;
    groups[trace.requests[i].*key].add(trace.requests[i], outcome.requests[i]);
  }
  return groups;
}

// From the highest to the lowest.
Json priorities_json(const Trace& trace, const Outcome& outcome) {
  auto groups = group_by(trace, outcome, &TraceRequest::priority);
  Json out = Json::object();
  for (auto it = groups.rbegin(); it != groups.rend(); ++it) {
    out[std::to_string(it->first)] = group_json(std::move(it->second));
  }
  return out;
}

Json tenants_json(const Trace& trace, const Outcome& outcome) {
  Json out = Json::object();
  for (auto& [tenant, group] : group_by(trace, outcome, &TraceRequest::tenant)) {
    Json& row = out[trace.tenants[tenant]] = group_json(std::move(group));
    row["competed_s"] = outcome.fairness.competed_s(tenant);
    row["tokens_per_s_competing"] = outcome.fairness.rate(tenant);
  }
  return out;
}

Json limits_json(const Limits& l) {
  return {{"blocks", l.n_blocks},
          {"block_size", l.block_size},
          {"max_step_tokens", l.max_step_tokens},
          {"max_sequences", l.max_sequences},
          {"max_queue", l.max_queue},
          {"max_step_ms", l.max_step_ms},
          {"prefix_cache", l.prefix_cache}};
}

Json cost_json(const CostModel& c) {
  return {{"source", c.source},
          {"step_us",
           {{"step", c.step},
            {"decode_token", c.decode_token},
            {"decode_context", c.decode_context},
            {"prefill_token", c.prefill_token},
            {"prefill_context", c.prefill_context}}}};
}

Json ratio(double part, double whole) {
  return whole == 0 ? Json(nullptr) : Json(part / whole);
}

Json throughput_json(const Group& all, double duration_s) {
  return {{"requests_per_s", ratio(static_cast<double>(all.ttft_us.size()), duration_s)},
          {"prompt_tokens_per_s", ratio(static_cast<double>(all.n_prompt), duration_s)},
          {"output_tokens_per_s", ratio(static_cast<double>(all.n_output), duration_s)}};
}

Group everyone(const Trace& trace, const Outcome& outcome) {
  Group all;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    if (!outcome.requests[i].refused) all.add(trace.requests[i], outcome.requests[i]);
  }
  return all;
}

}  // namespace

Json make_report(const Setting& setting, const Trace& trace, const Outcome& o) {
  const double duration_s = static_cast<double>(o.end_us) * 1e-6;
  const Group all = everyone(trace, o);
  const auto fairness = o.fairness.index();
  return {
      {"trace", setting.trace},
      {"scheduler", setting.scheduler},
      {"cost_model", cost_json(setting.cost)},
      {"limits", limits_json(setting.limits)},
      {"requests",
       {{"total", trace.requests.size()},
        {"finished", all.ttft_us.size()},
        {"refused", o.n_refused},
        {"skipped_rows", trace.n_skipped}}},
      {"duration_s", duration_s},
      {"busy_ratio", ratio(static_cast<double>(o.busy_us), static_cast<double>(o.end_us))},
      {"steps", o.n_steps},
      {"tokens_per_step", ratio(static_cast<double>(o.n_tokens), static_cast<double>(o.n_steps))},
      {"throughput", throughput_json(all, duration_s)},
      {"ttft_ms", percentiles_ms(SortedSamples(all.ttft_us))},
      {"inter_token_ms", percentiles_ms(o.inter_token_us)},
      {"e2e_ms", percentiles_ms(SortedSamples(all.e2e_us))},
      {"preemptions", o.n_preemptions},
      {"recomputed_tokens", o.n_recomputed},
      {"invalid_decisions", o.n_invalid},
      {"first_invalid_decision", o.n_invalid == 0 ? Json(nullptr) : Json(o.first_invalid)},
      {"prefix_cache",
       {{"queried_tokens", o.n_queried},
        {"hit_tokens", o.n_cached},
        {"hit_ratio", ratio(static_cast<double>(o.n_cached), static_cast<double>(o.n_queried))}}},
      {"most_used_blocks", o.most_used_blocks},
      {"longest_line", o.longest_line},
      {"fairness", fairness ? Json(*fairness) : Json(nullptr)},
      {"priorities", priorities_json(trace, o)},
      {"tenants", tenants_json(trace, o)},
  };
}

}  // namespace bp::simulate

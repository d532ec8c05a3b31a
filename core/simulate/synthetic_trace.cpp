#include "core/simulate/synthetic_trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "core/base/yaml.hpp"
#include "core/simulate/distribution.hpp"

namespace bp::simulate {

using base::Yaml;

namespace {

constexpr uint32_t kMostStreams = 1000, kMostTenants = 1'000'000, kMostVariants = 1'000'000;

// Purposes of draws; they are part of what a seed means.
enum Purpose : uint32_t { kGap, kPrompt, kOutput, kTenant, kVariant };

struct Stream {
  uint32_t number = 0;
  uint64_t n_requests = 0;
  double start_us = 0;
  double gap_us = 0;  // mean time between arrivals
  double gap_cv = 1;
  LengthDistribution prompt, output;
  int32_t priority = 0;
  std::string tenant;
  uint32_t n_tenants = 1;
  uint32_t prefix_tokens = 0;
  std::vector<double> variants;  // cumulative weights of the prefixes
};

Status read_float(const Yaml& map, const char* key, double min, double max, double& out) {
  const auto node = map.find(key);
  if (!node) return {};
  BP_ASSIGN(out, node->as_float());
  if (out >= min && out <= max) return {};
  return node->error(fmt::format("must be {} to {}", min, max));
}

template <class T>
Status read_int(const Yaml& map, const char* key, int64_t min, int64_t max, T& out) {
  const auto node = map.find(key);
  if (!node) return {};
  BP_ASSIGN(const int64_t value, node->as_int(min, max));
  out = static_cast<std::remove_reference_t<decltype(out)>>(value);
  return {};
}

Status read_prefix(const Yaml& node, Stream& s) {
  BP_TRY(node.expect_keys({"tokens", "variants", "skew"}));
  uint32_t n_variants = 1;
  double skew = 0;
  BP_TRY(read_int(node, "tokens", 1, kMostTokens, s.prefix_tokens));
  BP_TRY(read_int(node, "variants", 1, kMostVariants, n_variants));
  BP_TRY(read_float(node, "skew", 0, 10, skew));
  if (s.prefix_tokens == 0) return node.error("the key 'tokens' is missing");
  double sum = 0;
  for (uint32_t i = 0; i < n_variants; ++i) {
    s.variants.push_back(sum += std::pow(i + 1.0, -skew));
  }
  return {};
}

Result<Stream> read_stream(const Yaml& node, uint32_t number) {
  BP_TRY(node.expect_keys({"requests", "start_s", "rate", "cv", "prompt", "output", "priority",
                           "tenant", "tenants", "prefix"}));
  Stream s;
  s.number = number;
  double start_s = 0, rate = 0;
  BP_TRY(read_int(node, "requests", 1, kMostRequests, s.n_requests));
  BP_TRY(read_float(node, "start_s", 0, 1e9, start_s));
  BP_TRY(read_float(node, "rate", 1e-6, 1e9, rate));
  BP_TRY(read_float(node, "cv", 0, 100, s.gap_cv));
  BP_TRY(read_int(node, "priority", INT32_MIN, INT32_MAX, s.priority));
  BP_TRY(read_int(node, "tenants", 1, kMostTenants, s.n_tenants));
  if (const auto tenant = node.find("tenant")) {
    BP_ASSIGN(s.tenant, tenant->as_string());
  }
  if (const auto prefix = node.find("prefix")) BP_TRY(read_prefix(*prefix, s));
  const auto prompt = node.find("prompt"), output = node.find("output");
  if (s.n_requests == 0 || !prompt || !output) {
    return node.error("a stream needs 'requests', 'prompt' and 'output'");
  }
  BP_ASSIGN(s.prompt, read_length(*prompt));
  BP_ASSIGN(s.output, read_length(*output));
  s.start_us = start_s * 1e6;
  s.gap_us = rate > 0 ? 1e6 / rate : 0;
  return s;
}

std::string tenant_name(const Stream& s, uint32_t i) {
  if (s.n_tenants == 1) return s.tenant;
  return fmt::format("{}{}{}", s.tenant, s.tenant.empty() ? "" : "-", i);
}

// The tenants of the stream, behind those of others; equal names are one tenant.
std::vector<uint32_t> add_tenants(const Stream& s, std::map<std::string, uint32_t>& known,
                                  Trace& trace) {
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < s.n_tenants; ++i) {
    const auto [it, is_new] =
        known.emplace(tenant_name(s, i), static_cast<uint32_t>(trace.tenants.size()));
    if (is_new) trace.tenants.push_back(it->first);
    indices.push_back(it->second);
  }
  return indices;
}

void generate(const Stream& s, uint64_t seed, const std::vector<uint32_t>& tenants, Trace& trace) {
  const auto first_prefix = static_cast<uint32_t>(trace.prefixes.size());
  for (size_t i = 0; i < s.variants.size(); ++i) {
    const auto id = static_cast<uint32_t>(trace.prefix_ids.size());
    trace.prefixes.push_back({id, 1, s.prefix_tokens});
    trace.prefix_ids.push_back(static_cast<int32_t>(id));
  }
  double at_us = s.start_us;
  for (uint32_t i = 0; i < s.n_requests; ++i) {
    const auto draws = [&](Purpose purpose) { return Draws(seed, s.number, i, purpose); };
    TraceRequest r;
    Draws gap = draws(kGap), tenant = draws(kTenant);
    if (i > 0 && s.gap_us > 0) at_us += draw_gamma(gap, s.gap_us, s.gap_cv);
    r.arrival_us = static_cast<uint64_t>(at_us);
    r.n_prompt = std::min(kMostTokens, s.prefix_tokens + s.prompt.draw(draws(kPrompt)));
    r.n_output = s.output.draw(draws(kOutput));
    r.priority = s.priority;
    r.tenant = tenants[static_cast<size_t>(tenant.next() * static_cast<double>(tenants.size()))];
    if (!s.variants.empty()) {
      const double at = draws(kVariant).next() * s.variants.back();
      const auto it = std::ranges::upper_bound(s.variants, at);
      r.prefix = first_prefix + static_cast<uint32_t>(it - s.variants.begin());
    }
    trace.requests.push_back(r);
  }
}

Status read_limits(const Yaml& node, LimitOverrides& limits) {
  BP_TRY(node.expect_keys({"blocks", "block_size", "max_step_tokens", "max_sequences", "max_queue",
                           "max_step_ms", "prefix_cache"}));
  const auto read = [&](const char* key, int64_t min, std::optional<uint32_t>& out) -> Status {
    const auto value = node.find(key);
    if (!value) return {};
    BP_ASSIGN(const int64_t number, value->as_int(min, 1 << 30));
    out = static_cast<uint32_t>(number);
    return {};
  };
  BP_TRY(read("blocks", 1, limits.n_blocks));
  BP_TRY(read("block_size", 1, limits.block_size));
  BP_TRY(read("max_step_tokens", 1, limits.max_step_tokens));
  BP_TRY(read("max_sequences", 1, limits.max_sequences));
  BP_TRY(read("max_queue", 0, limits.max_queue));
  BP_TRY(read("max_step_ms", 1, limits.max_step_ms));
  if (const auto cache = node.find("prefix_cache")) {
    BP_ASSIGN(limits.prefix_cache, cache->as_bool());
  }
  return {};
}

Status read_expectations(const Yaml& list, const std::string& plugin, Trace& trace) {
  BP_ASSIGN(const auto items, list.items());
  for (const Yaml& item : items) {
    BP_ASSIGN(const std::string text, item.as_string());
    auto expectation = parse_expectation(text, plugin);
    if (!expectation.ok()) return item.error(expectation.status().message());
    trace.expectations.push_back(std::move(expectation).value());
  }
  return {};
}

Status read_conditions(const Yaml& file, Trace& trace) {
  if (const auto limits = file.find("limits")) BP_TRY(read_limits(*limits, trace.limits));
  if (const auto prices = file.find("step_us")) {
    BP_ASSIGN(trace.cost, read_prices(*prices));
  }
  if (const auto expect = file.find("expect")) BP_TRY(read_expectations(*expect, "", trace));
  const auto of_plugins = file.find("expect_of");
  if (!of_plugins) return {};
  BP_ASSIGN(const auto members, of_plugins->members());
  for (const auto& [plugin, list] : members) BP_TRY(read_expectations(list, plugin, trace));
  return {};
}

}  // namespace

Result<Trace> load_synthetic_trace(const std::string& path, std::optional<uint64_t> seed) {
  BP_ASSIGN(const Yaml file, Yaml::load_file(path));
  BP_TRY(
      file.expect_keys({"about", "seed", "limits", "step_us", "streams", "expect", "expect_of"}));
  Trace trace;
  BP_TRY(read_conditions(file, trace));
  uint64_t file_seed = 0;
  BP_TRY(read_int(file, "seed", 0, INT64_MAX, file_seed));
  const auto streams = file.find("streams");
  if (!streams) return file.error("the key 'streams' is missing");
  BP_ASSIGN(const auto items, streams->items());
  if (items.size() > kMostStreams) return streams->error("more than 1000 streams");
  std::map<std::string, uint32_t> known_tenants;
  for (uint32_t i = 0; i < items.size(); ++i) {
    BP_ASSIGN(const Stream stream, read_stream(items[i], i));
    if (trace.requests.size() + stream.n_requests > kMostRequests) {
      return items[i].error("more than 100 million requests");
    }
    generate(stream, seed.value_or(file_seed), add_tenants(stream, known_tenants, trace), trace);
  }
  return trace;
}

}  // namespace bp::simulate

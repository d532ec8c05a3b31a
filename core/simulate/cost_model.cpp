#include "core/simulate/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/base/yaml.hpp"
#include "core/simulate/least_squares.hpp"

namespace bp::simulate {

using base::Yaml;

namespace {

// What `backplane bench` does where its output does not say it.
constexpr uint32_t kBenchPrompt = 512, kBenchGenerate = 64, kBenchChunk = 512;
constexpr uint32_t kBenchShortPrompt = 128;  // of several sequences that decode at depth 0
constexpr int64_t kMostInBench = 1 << 24;

struct BenchRow {
  bool is_prefill;
  double n_sequences, depth, tokens_per_s;
};

Result<double> positive(const Yaml& map, const char* key) {
  const auto node = map.find(key);
  if (!node) return map.error(fmt::format("the key '{}' is missing", key));
  BP_ASSIGN(const double value, node->as_float());
  if (!std::isfinite(value) || value <= 0) return node->error("must be positive");
  return value;
}

Result<uint32_t> count(const Yaml& map, const char* key, uint32_t fallback) {
  const auto node = map.find(key);
  if (!node) return fallback;
  BP_ASSIGN(const int64_t value, node->as_int(0, kMostInBench));
  return static_cast<uint32_t>(value);
}

Result<BenchRow> read_row(const Yaml& item) {
  const auto kind = item.find("kind");
  if (!kind) return item.error("the key 'kind' is missing");
  BP_ASSIGN(const std::string name, kind->as_string());
  if (name != "prefill" && name != "decode") return kind->error("must be 'prefill' or 'decode'");
  BP_ASSIGN(const uint32_t depth, count(item, "depth", 0));
  BP_ASSIGN(const uint32_t n_sequences, count(item, "sequences", 1));
  BP_ASSIGN(const double rate, positive(item, "tokens_per_s"));
  return BenchRow{name == "prefill", static_cast<double>(std::max(n_sequences, 1u)),
                  static_cast<double>(depth), rate};
}

Measurement prefill_measurement(const BenchRow& row, double n_prompt) {
  const double pairs = n_prompt * row.depth + n_prompt * (n_prompt + 1) / 2;
  return {{std::ceil(n_prompt / kBenchChunk), 0, 0, n_prompt, pairs},
          1e6 * n_prompt / row.tokens_per_s};
}

Measurement decode_measurement(const BenchRow& row, double n_prompt, double n_generate) {
  const bool short_prompt = row.depth == 0 && row.n_sequences > 1;
  const double before = short_prompt ? std::min<double>(n_prompt, kBenchShortPrompt) : row.depth;
  const double context = before + n_generate / 2;
  return {{1, row.n_sequences, row.n_sequences * context, 0, 0},
          1e6 * row.n_sequences / row.tokens_per_s};
}

// Where the measurements were made: " (MODEL on CPU, N threads)".
std::string describe(const Yaml& file) {
  const auto text = [](const Yaml& map, const char* key) {
    const auto node = map.find(key);
    const auto value = node ? node->as_string() : Result<std::string>(std::string("?"));
    return value.ok() ? *value : std::string("?");
  };
  const auto machine = file.find("machine");
  if (!machine) return text(file, "model");
  return fmt::format("{} on {}, {} threads", text(file, "model"), text(*machine, "cpu"),
                     text(*machine, "threads"));
}

Result<CostModel> fit_bench(const Yaml& file, const Yaml& results) {
  BP_ASSIGN(const uint32_t n_prompt, count(file, "prompt", kBenchPrompt));
  BP_ASSIGN(const uint32_t n_generate, count(file, "generate", kBenchGenerate));
  BP_ASSIGN(const auto items, results.items());
  std::vector<Measurement> measurements;
  std::set<double> decoding;
  bool prefill = false;
  for (const Yaml& item : items) {
    BP_ASSIGN(const BenchRow row, read_row(item));
    if (row.is_prefill && n_prompt == 0) return item.error("a prefill without a prompt");
    measurements.push_back(row.is_prefill ? prefill_measurement(row, n_prompt)
                                          : decode_measurement(row, n_prompt, n_generate));
    prefill = prefill || row.is_prefill;
    if (!row.is_prefill) decoding.insert(row.n_sequences);
  }
  if (!prefill || decoding.size() < 2) {
    return results.error(
        "prefill and decodes of at least two numbers of sequences are needed: measure with "
        "`backplane bench MODEL --sequences 1,4,16 --depth 0,1024 --json`");
  }
  const auto prices = fit_prices(measurements);
  if (!prices) return results.error("these measurements cannot be fitted");
  CostModel model;
  model.source = fmt::format("{}; fits the {} measurements within {:.0f} %", describe(file),
                             measurements.size(), 100 * worst_error(measurements, *prices));
  model.step = (*prices)[0];
  model.decode_token = (*prices)[1];
  model.decode_context = (*prices)[2];
  model.prefill_token = (*prices)[3];
  model.prefill_context = (*prices)[4];
  return model;
}

}  // namespace

Result<CostModel> read_prices(const Yaml& prices) {
  BP_TRY(prices.expect_keys(
      {"step", "decode_token", "decode_context", "prefill_token", "prefill_context"}));
  CostModel model;
  BP_ASSIGN(const auto members, prices.members());
  for (const auto& [name, node] : members) {
    BP_ASSIGN(const double value, node.as_float());
    if (!std::isfinite(value) || value < 0 || value > 1e12) {
      return node.error("must be microseconds, 0 to 1e12");
    }
    if (name == "step") model.step = value;
    if (name == "decode_token") model.decode_token = value;
    if (name == "decode_context") model.decode_context = value;
    if (name == "prefill_token") model.prefill_token = value;
    if (name == "prefill_context") model.prefill_context = value;
  }
  if (model.step + model.decode_token == 0 || model.step + model.prefill_token == 0) {
    return prices.error("a step must take time: 'step', or 'decode_token' and 'prefill_token'");
  }
  model.source = "the prices in " + prices.place();
  return model;
}

Result<CostModel> load_cost_model(const std::string& path) {
  BP_ASSIGN(const Yaml file, Yaml::load_file(path));
  if (const auto prices = file.find("step_us")) return read_prices(*prices);
  const auto results = file.find("results");
  if (!results) {
    return file.error(
        "neither 'results' of `backplane bench --json` nor prices under 'step_us' are in it");
  }
  auto model = fit_bench(file, *results);
  if (model.ok()) model->source = path + ": " + model->source;
  return model;
}

CostModel default_cost_model() {
  CostModel model;
  model.source =
      "the default, SmolLM2-135M-Instruct (Q4_1) on one core of a shared server CPU; --cost takes "
      "what `backplane bench --json` measures on yours";
  model.step = 13'610;
  model.decode_token = 2'845;
  model.decode_context = 2.235;
  model.prefill_token = 1'676;
  model.prefill_context = 1.132;
  return model;
}

}  // namespace bp::simulate

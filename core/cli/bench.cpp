// backplane bench: prefill and decode straight on the executable, with the machine's own limits
// beside them.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/cli/bench_report.hpp"
#include "core/cli/bench_session.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/machine_probe.hpp"
#include "core/cli/progress.hpp"

namespace bp::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kShortPrompt = 128;  // of several sequences that decode at depth 0
constexpr uint32_t kWarmUpTokens = 64;
constexpr int kMostRounds = 5;
constexpr double kEnoughSeconds = 2;  // of one measurement, all rounds together

// Tokens that stand before the first one measured.
uint32_t context_before(const BenchOptions& options, uint32_t n_sequences, uint32_t depth) {
  if (depth > 0 || n_sequences == 1) return depth;
  return std::min(options.n_prompt, kShortPrompt);
}

uint32_t longest_context(const BenchOptions& options, uint32_t depth) {
  const uint32_t short_prompt = std::min(options.n_prompt, kShortPrompt);
  return std::max(depth + std::max(options.n_prompt, options.n_generate),
                  short_prompt + options.n_generate);
}

// Median over rounds of `n_tokens` / seconds.
Result<double> tokens_per_second(uint64_t n_tokens, const std::function<Status()>& round) {
  std::vector<double> rates;
  double total_s = 0;
  while (rates.empty() || (rates.size() < kMostRounds && total_s < kEnoughSeconds)) {
    const auto start = Clock::now();
    BP_TRY(round());
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    total_s += seconds;
    rates.push_back(static_cast<double>(n_tokens) / seconds);
  }
  std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
  return rates[rates.size() / 2];
}

class Bench {
 public:
  // n_probed_threads: those of which the machine's bandwidth is measured around each decode; 0: not
  Bench(const BenchOptions& options, const runtime::CompiledModel& compiled, uint32_t n_blocks,
        uint32_t n_probed_threads)
      : options_(options),
        compiled_(compiled),
        n_blocks_(n_blocks),
        n_probed_threads_(n_probed_threads),
        session_(compiled, n_blocks) {}

  Result<std::vector<Measured>> run(const std::set<uint32_t>& depths) {
    session_.arrange(1, longest_context(options_, 0));
    BP_TRY(session_.clear());
    BP_TRY(session_.prefill(0, std::min(kWarmUpTokens, longest_context(options_, 0))));
    for (const uint32_t depth : depths) BP_TRY(measure(depth));
    return std::move(measured_);
  }

 private:
  Status measure(uint32_t depth) {
    if (options_.n_prompt > 0) BP_TRY(measure_prefill(depth));
    if (options_.n_generate == 0) return {};
    for (const uint32_t n : options_.sequences) BP_TRY(measure_decode(n, depth));
    return {};
  }

  Status measure_prefill(uint32_t depth) {
    session_.arrange(1, depth + options_.n_prompt);
    BP_TRY(fill(depth));
    BP_ASSIGN(const double rate, tokens_per_second(options_.n_prompt, [&] {
                return session_.prefill(depth, options_.n_prompt);
              }));
    measured_.push_back(
        {Measured::Kind::kPrefill, 1, depth, depth + options_.n_prompt / 2.0, rate});
    return {};
  }

  Status measure_decode(uint32_t n_sequences, uint32_t depth) {
    const uint32_t before = context_before(options_, n_sequences, depth);
    const uint32_t context = before + options_.n_generate;
    const uint64_t needed = BenchSession::blocks_needed(compiled_.memory, n_sequences, context);
    if (needed > n_blocks_) {
      fmt::print(stderr, "skipped: {} sequences at depth {}: not enough memory\n", n_sequences,
                 depth);
      return {};
    }
    session_.arrange(n_sequences, context);
    BP_TRY(fill(before));
    BP_TRY(session_.decode(before, true));
    const auto round = [&]() -> Status {
      for (uint32_t i = 0; i < options_.n_generate; ++i) BP_TRY(session_.decode(before + i));
      return {};
    };
    const uint64_t n_tokens = uint64_t{n_sequences} * options_.n_generate;
    const double gb_s_before = bandwidth_gb_s();
    BP_ASSIGN(const double rate, tokens_per_second(n_tokens, round));
    const double gb_s = (gb_s_before + bandwidth_gb_s()) / 2;
    measured_.push_back({Measured::Kind::kDecode, n_sequences, depth,
                         before + options_.n_generate / 2.0, rate, gb_s});
    return {};
  }

  [[nodiscard]] double bandwidth_gb_s() const {
    return n_probed_threads_ == 0 ? 0 : probe_bandwidth_gb_s(n_probed_threads_);
  }

  // Sequence 0 keeps its blocks whatever the arrangement, so that only what is new is computed.
  Status fill(uint32_t depth) {
    if (depth > filled_) BP_TRY(session_.prefill(filled_, depth - filled_));
    filled_ = std::max(filled_, depth);
    return {};
  }

  const BenchOptions& options_;
  const runtime::CompiledModel& compiled_;
  const uint32_t n_blocks_, n_probed_threads_;
  BenchSession session_;
  uint32_t filled_ = 0;
  std::vector<Measured> measured_;
};

std::set<uint32_t> fitting_depths(const BenchOptions& options, uint32_t context) {
  std::set<uint32_t> depths;
  for (const uint32_t depth : options.depths) {
    if (longest_context(options, depth) <= context) {
      depths.insert(depth);
    } else {
      fmt::print(stderr, "skipped: depth {}: the model's context is {} tokens\n", depth, context);
    }
  }
  return depths;
}

// Blocks for the largest measurement, or as many as memory allows.
Result<uint32_t> choose_n_blocks(const BenchOptions& options, const bp_memory_info& memory,
                                 const std::set<uint32_t>& depths) {
  uint64_t block_bytes = 0;
  for (uint32_t g = 0; g < memory.n_groups; ++g) block_bytes += memory.block_bytes[g];
  const uint64_t affordable =
      block_bytes == 0 ? UINT32_MAX : runtime::kv_budget(memory) / block_bytes;
  const uint32_t longest = longest_context(options, *depths.rbegin());
  const uint64_t least = BenchSession::blocks_needed(memory, 1, longest);
  if (affordable < least) {
    return out_of_memory(fmt::format("the KV cache of {} tokens needs {:.1f} MB; lower --depth",
                                     longest, static_cast<double>(least * block_bytes) / 1e6));
  }
  uint64_t wanted = least;
  for (const uint32_t n : options.sequences) {
    const uint32_t context = context_before(options, n, *depths.rbegin()) + options.n_generate;
    wanted = std::max(wanted, BenchSession::blocks_needed(memory, n, context));
  }
  return static_cast<uint32_t>(std::min({wanted, affordable, uint64_t{INT32_MAX}}));
}

runtime::CompileLimits limits_of(const BenchOptions& options) {
  runtime::CompileLimits limits;
  const uint32_t deepest = *std::max_element(options.depths.begin(), options.depths.end());
  limits.max_sequences = *std::max_element(options.sequences.begin(), options.sequences.end());
  limits.context = longest_context(options, deepest);
  limits.max_step_tokens = std::max(BenchSession::kChunk, limits.max_sequences);
  limits.max_output_rows = limits.max_sequences;
  return limits;
}

struct Compiled {
  runtime::CompiledModel model;
  std::optional<bp_memory_plan> plan;  // where the backend has one
};

Result<Compiled> compile(runtime::Runtime& runtime, const config::Model& config,
                         const runtime::CompileLimits& limits) {
  const ProgressBar progress("preparing");
  BP_ASSIGN(model::LoadedModel model, runtime::load_model(runtime, config, progress.c()));
  const auto plan = runtime::plan_memory(runtime, config, model);
  BP_ASSIGN(auto compiled,
            runtime::compile_model(runtime, config, std::move(model), limits, progress.c()));
  return Compiled{std::move(compiled), plan.ok() ? *plan : std::nullopt};
}

// Of Bench: what a probe reads must not push weights out of memory.
uint32_t n_probed_threads(const std::optional<bp_memory_plan>& plan, uint32_t n_threads) {
  if (!plan) return n_threads;
  const bp_weights_mode& mode = plan->modes[plan->chosen];
  const uint64_t taken = mode.own_bytes + mode.mapped_bytes + 2 * kProbeBytes;
  return taken <= plan->available_bytes ? n_threads : 0;
}

}  // namespace

Status bench(const BenchOptions& options) {
  BP_ASSIGN(const auto runtime, runtime::default_runtime(options.model.n_threads));
  BP_ASSIGN(const config::Model config, configured(options.model, runtime->catalog()));
  BP_ASSIGN(const Compiled made, compile(*runtime, config, limits_of(options)));
  const runtime::CompiledModel& compiled = made.model;
  const auto depths = fitting_depths(
      options, std::min(compiled.limits.context, compiled.parts->model.context_length));
  if (depths.empty()) return invalid_argument("no depth fits the model's context");
  BP_ASSIGN(const uint32_t n_blocks, choose_n_blocks(options, compiled.memory, depths));
  BP_TRY(runtime::allocate_kv(compiled, n_blocks, compiled.limits.max_sequences + 1));
  BP_TRY(compiled.executable.warm_up(nullptr));
  // What the processor can do says nothing of a backend that has memory of its own.
  const bool is_on_processor = compiled.memory.is_dedicated == 0;
  const uint32_t n_threads = runtime->n_threads();
  const uint32_t n_probed = is_on_processor ? n_probed_threads(made.plan, n_threads) : 0;
  BP_ASSIGN(auto results, Bench(options, compiled, n_blocks, n_probed).run(depths));
  const BenchReport report = {
      options.model.model,
      options.n_prompt,
      options.n_generate,
      StepCost(compiled, made.plan),
      is_on_processor ? probe_machine(n_threads) : name_machine(n_threads),
      std::move(results),
  };
  options.json ? report.print_json() : report.print_table();
  return {};
}

}  // namespace bp::cli

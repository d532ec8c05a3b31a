// backplane bench: prefill and decode straight on the executable, with the machine's own limits
// beside them.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

struct Measured {
  const char* kind;  // "prefill" or "decode"
  uint32_t n_sequences;
  uint32_t depth;
  double tokens_s;
  double bandwidth_gb_s = 0;  // the machine's, right before and after; 0 where not measured
};

// Matrices of which each token uses the same share: all, or some of the experts.
struct WeightCost {
  double bytes = 0;
  double used = 1;

  // Of a step of n tokens that choose without regard to each other.
  [[nodiscard]] double bytes_of_step(uint32_t n_tokens) const {
    return bytes * (1 - std::pow(1 - used, n_tokens));
  }
};

// Of the KV cache, what layers read of a token of context, as long as their window holds it.
struct KvCost {
  double bytes;
  uint32_t window;  // 0: all of the context

  [[nodiscard]] double bytes_at(double context) const {
    return bytes * (window == 0 ? context : std::min<double>(context, window));
  }
};

// What a token costs at least.
struct Cost {
  std::vector<WeightCost> weights;
  std::vector<KvCost> kv;
  double state_bytes = 0;  // read and written in a step, of a sequence
  double operations = 0;   // multiplications and additions of a prefill token with weights
};

double bytes_of(const model::Weight& weight) {
  double bytes = 0;
  for (const bp_weight_part& part : weight.parts) bytes += static_cast<double>(part.n_bytes);
  return bytes;
}

// Share of an op's stacked matrices that a token uses.
double used_share(const model::Op& op, uint64_t n_matrices) {
  const void* attributes = op.attributes.data();
  double n_used = static_cast<double>(n_matrices);
  if (op.schema->kind == BP_OP_MOE) n_used = static_cast<const bp_attr_moe*>(attributes)->n_used;
  if (op.schema->kind == BP_OP_GROUP_MATMUL) {
    n_used = static_cast<const bp_attr_group_matmul*>(attributes)->n_groups;
  }
  return std::min(n_used / static_cast<double>(n_matrices), 1.0);
}

// As the backend keeps them, which may be in fewer bytes than the file: what it keeps at all tells,
// and that the rest, which no step reads whole, stays as it is.
void scale_to_plan(const bp_memory_plan& plan, double file_bytes, std::vector<WeightCost>& read) {
  const bp_weights_mode& mode = plan.modes[plan.chosen];
  const auto kept = static_cast<double>(mode.own_bytes + mode.mapped_bytes);
  double read_bytes = 0;
  for (const WeightCost& weight : read) read_bytes += weight.bytes;
  const double kept_of_read = kept - (file_bytes - read_bytes);
  if (kept_of_read <= 0) return;
  for (WeightCost& weight : read) weight.bytes *= kept_of_read / read_bytes;
}

Cost cost_of(const runtime::CompiledModel& compiled, const std::optional<bp_memory_plan>& plan) {
  Cost cost;
  const model::ProgramParts& program = compiled.parts->program.parts();
  std::set<uint32_t> read;
  for (const model::Op& op : program.ops) {
    if (op.schema->kind == BP_OP_EMBED) continue;
    const bool every_row = op.schema->kind != BP_OP_LM_HEAD;
    for (const uint32_t index : op.weights) {
      if (index == BP_NONE || !read.insert(index).second) continue;
      const model::Weight& weight = program.weights[index];
      const auto dims = weight.dims();
      WeightCost& of_weight = cost.weights.emplace_back();
      of_weight.bytes = bytes_of(weight);
      if (dims.size() == 3) of_weight.used = used_share(op, dims[0]);
      if (!every_row || dims.size() < 2) continue;
      double elements = of_weight.used;
      for (const uint64_t dim : dims) elements *= static_cast<double>(dim);
      cost.operations += 2 * elements;
    }
  }
  double file_bytes = 0;
  for (const model::Weight& weight : program.weights) file_bytes += bytes_of(weight);
  if (plan) scale_to_plan(*plan, file_bytes, cost.weights);
  const bp_memory_info& memory = compiled.memory;
  for (uint32_t g = 0; g < memory.n_groups; ++g) {
    const uint64_t packed = memory.packed_block_bytes[g];
    const auto bytes = static_cast<double>(packed != 0 ? packed : memory.block_bytes[g]);
    cost.kv.push_back({bytes / memory.block_size, program.kv_groups[g].window});
  }
  cost.state_bytes = 2 * static_cast<double>(compiled.state_bytes);
  return cost;
}

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
    measured_.push_back({"prefill", 1, depth, rate});
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
    measured_.push_back({"decode", n_sequences, depth, rate, gb_s});
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

std::string share_text(const Measured& m, const BenchOptions& options, const Cost& cost,
                       const Machine& machine) {
  if (m.kind == std::string_view("prefill")) {
    if (machine.int8_tops == 0) return "";
    return fmt::format("{:.0f} % of the int8 peak",
                       100 * m.tokens_s * cost.operations / (machine.int8_tops * 1e12));
  }
  const double gb_s = m.bandwidth_gb_s > 0 ? m.bandwidth_gb_s : machine.bandwidth_gb_s;
  if (gb_s == 0) return "";
  const double context = context_before(options, m.n_sequences, m.depth) + options.n_generate / 2.0;
  double of_sequence = cost.state_bytes;
  for (const KvCost& kv : cost.kv) of_sequence += kv.bytes_at(context);
  double step_bytes = m.n_sequences * of_sequence;
  for (const WeightCost& weight : cost.weights) step_bytes += weight.bytes_of_step(m.n_sequences);
  return fmt::format("{:.0f} % of the bandwidth",
                     100 * m.tokens_s / m.n_sequences * step_bytes / (gb_s * 1e9));
}

// "reads 45.1 GB/s", or "reads 45.1 to 81.2 GB/s": the machine may have changed meanwhile.
std::string bandwidth_text(const Machine& machine, const std::vector<Measured>& results) {
  constexpr double kSame = 1.1;
  double least = machine.bandwidth_gb_s, most = least;
  for (const Measured& m : results) {
    if (m.bandwidth_gb_s == 0) continue;
    least = std::min(least, m.bandwidth_gb_s);
    most = std::max(most, m.bandwidth_gb_s);
  }
  if (most <= least * kSame) return fmt::format("reads {:.1f} GB/s", most);
  return fmt::format("reads {:.1f} to {:.1f} GB/s", least, most);
}

void print_table(const BenchOptions& options, const Cost& cost, const Machine& machine,
                 const std::vector<Measured>& results) {
  fmt::print("{}\n{}, {} threads", options.model.model, machine.cpu, machine.n_threads);
  if (machine.bandwidth_gb_s > 0) {
    fmt::print(": {}, int8 {:.2f} TOPS", bandwidth_text(machine, results), machine.int8_tops);
  }
  fmt::print("\n\n");
  fmt::print("{:<8} {:>9} {:>8} {:>12}\n", "", "SEQUENCES", "DEPTH", "TOKENS/S");
  for (const Measured& m : results) {
    fmt::print("{:<8} {:>9} {:>8} {:>12.1f}  {}\n", m.kind, m.n_sequences, m.depth, m.tokens_s,
               share_text(m, options, cost, machine));
  }
}

void print_json(const BenchOptions& options, const Machine& machine,
                const std::vector<Measured>& results) {
  auto rows = nlohmann::ordered_json::array();
  for (const Measured& m : results) {
    rows.push_back({{"kind", m.kind},
                    {"sequences", m.n_sequences},
                    {"depth", m.depth},
                    {"tokens_per_s", m.tokens_s}});
  }
  const nlohmann::ordered_json document = {{"model", options.model.model},
                                           {"prompt", options.n_prompt},
                                           {"generate", options.n_generate},
                                           {"machine",
                                            {{"cpu", machine.cpu},
                                             {"threads", machine.n_threads},
                                             {"bandwidth_gb_s", machine.bandwidth_gb_s},
                                             {"int8_tops", machine.int8_tops}}},
                                           {"results", rows}};
  fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
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
uint32_t n_probed_threads(const BenchOptions& options, const std::optional<bp_memory_plan>& plan,
                          uint32_t n_threads) {
  if (options.json) return 0;  // which has no place for it
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
  const uint32_t n_probed = is_on_processor ? n_probed_threads(options, made.plan, n_threads) : 0;
  BP_ASSIGN(const auto results, Bench(options, compiled, n_blocks, n_probed).run(depths));
  const Machine machine = is_on_processor ? probe_machine(n_threads) : name_machine(n_threads);
  if (options.json) {
    print_json(options, machine, results);
  } else {
    print_table(options, cost_of(compiled, made.plan), machine, results);
  }
  return {};
}

}  // namespace bp::cli

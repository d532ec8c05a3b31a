#include "core/cli/command_line.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "core/base/nearest.hpp"
#include "core/cli/commands.hpp"
#include "core/config/kv_section.hpp"
#include "core/model/map_guard.hpp"
#include "core/quantize/mixture.hpp"

namespace bp::cli {

namespace {

constexpr uint32_t kMostTokens = 1u << 24;  // of a context
constexpr int kDone = 0, kFailed = 1, kWrongCommandLine = 2;
constexpr const char* kModelHelp = "a model file, or a folder of a Hugging Face checkpoint";
constexpr const char* kSetHelp = "KEY=VALUE: a key of the backend, as in its configuration";
constexpr const char* kOverrideHelp = "OP=PLUGIN: kernels of another plugin for one op";
constexpr const char* kKvHelp = "type of the KV cache, or of keys and values, as q8_0 or q8_0,f16";

using Command = std::function<Status()>;

// Standard output belongs to results: the log goes to standard error. Only `serve` logs its doings.
void set_up_log() {
  auto log = spdlog::stderr_color_mt("backplane");
  log->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  log->set_level(spdlog::level::warn);
  spdlog::set_default_logger(log);
}

// Refuses what CLI11 would take for 0, or wrap around.
template <class Number>
std::string check_number(const std::string& text) {
  Number value;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop == end && error == std::errc()) return "";
  return "'" + text + "' is no number that fits";
}

template <class Number>
CLI::Validator number_validator() {
  return CLI::Validator(check_number<Number>, "");
}

template <class Number>
CLI::Option* add_number(CLI::App& sub, const char* name, Number& number, const char* help) {
  return sub.add_option(name, number, help)->check(number_validator<Number>());
}
CLI::Option* add_number(CLI::App& sub, const char* name, std::optional<uint64_t>& number,
                        const char* help) {
  return sub.add_option(name, number, help)->check(number_validator<uint64_t>());
}

// Numbers with commas between, in one argument: the next one is another's.
template <class Number>
CLI::Option* add_list(CLI::App& sub, const char* name, std::vector<Number>& numbers,
                      const char* help) {
  return sub.add_option(name, numbers, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_validator<Number>());
}

std::string known_mixture(const std::string& name) {
  const auto found = quantize::find_mixture(name);
  return found.ok() ? "" : found.status().message();
}

std::string known_kv_types(const std::string& types) {
  config::Backend unused;
  const Status status = config::set_kv_types(types, unused);
  return status.ok() ? "" : status.message();
}

void add_serve(CLI::App& app, ServeOptions& o, Command& command) {
  auto* sub = app.add_subcommand("serve", "serve the models of a configuration over HTTP");
  sub->add_option("CONFIG", o.config, "a YAML file")->required();
  sub->add_flag("--check", o.check, "only check the configuration");
  sub->callback([&] { command = [&] { return serve(o); }; });
}

void add_run(CLI::App& app, RunOptions& o, Command& command) {
  auto* sub = app.add_subcommand("run", "answer one prompt, or chat on a terminal");
  sub->add_option("MODEL", o.model, kModelHelp)->required();
  sub->add_option("--prompt", o.prompt, "the user's message, or with --raw the text to continue");
  sub->add_flag("--raw", o.raw, "continue the prompt as it is, without the chat template");
  add_number(*sub, "--max-tokens", o.max_tokens, "stop after so many tokens (0: no limit)");
  sub->add_option("--temperature", o.temperature, "0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0));
  add_number(*sub, "--seed", o.seed, "the same seed gives the same text");
  add_number(*sub, "--context", o.context, "tokens of prompt and answer (0: as memory allows)")
      ->check(CLI::Range(0u, kMostTokens));
  sub->add_option("--backend", o.backend, "the backend plugin")->default_val("cpu");
  sub->add_option("--set", o.backend_keys, kSetHelp)->allow_extra_args(false);
  sub->add_option("--override", o.overrides, kOverrideHelp)->allow_extra_args(false);
  add_number(*sub, "--threads", o.n_threads, "threads to compute with (0: one per core)");
  sub->callback([&] { command = [&] { return run(o); }; });
}

void add_plugins(CLI::App& app, PluginsOptions& o, Command& command) {
  auto* sub = app.add_subcommand("plugins", "list the plugins, and why one cannot run here");
  sub->add_flag("--json", o.json, "as JSON");
  sub->callback([&] { command = [&] { return plugins(o); }; });
}

void add_inspect(CLI::App& app, InspectOptions& o, Command& command) {
  auto* sub = app.add_subcommand("inspect", "show what a model file holds and needs");
  sub->add_option("MODEL", o.model, kModelHelp)->required();
  sub->add_flag("--json", o.json, "as JSON");
  sub->callback([&] { command = [&] { return inspect(o); }; });
}

void add_tokenize(CLI::App& app, TokenizeOptions& o, Command& command) {
  auto* sub = app.add_subcommand("tokenize", "standard input to a JSON array of token ids");
  sub->add_option("MODEL", o.model, kModelHelp)->required();
  auto* no_special = sub->add_flag("--no-special", o.no_special, "add no BOS or EOS");
  auto* plain = sub->add_flag("--plain", o.plain, "special tokens written in the text stay text");
  sub->add_flag("--decode", o.decode, "a JSON array of ids back to text")
      ->excludes(no_special, plain);
  sub->callback([&] { command = [&] { return tokenize(o); }; });
}

void add_render(CLI::App& app, RenderOptions& o, Command& command) {
  auto* sub = app.add_subcommand("render", "a chat request in JSON to the prompt's text");
  auto* model = sub->add_option("MODEL", o.model, kModelHelp);
  auto* file =
      sub->add_option("--template", o.template_file, "a Jinja template instead of a model");
  model->excludes(file);
  sub->callback([&] {
    if (o.model.empty() && o.template_file.empty()) {
      throw CLI::RequiredError("MODEL or --template");
    }
    command = [&] { return render(o); };
  });
}

void add_model_options(CLI::App& sub, ModelOptions& o) {
  sub.add_option("MODEL", o.model, kModelHelp)->required();
  sub.add_option("--backend", o.backend, "the backend plugin; 'reference' computes in float32")
      ->default_val("cpu");
  sub.add_option("--kv", o.kv_types, kKvHelp)->check(known_kv_types);
  sub.add_option("--quantize", o.quantize, "quantise the weights while they are loaded: Q8_0, ...")
      ->check(known_mixture);
  sub.add_option("--set", o.backend_keys, kSetHelp)->allow_extra_args(false);
  sub.add_option("--override", o.overrides, kOverrideHelp)->allow_extra_args(false);
  add_number(sub, "--threads", o.n_threads, "threads to compute with (0: one per core)");
}

void add_perplexity(CLI::App& app, PerplexityOptions& o, Command& command) {
  auto* sub = app.add_subcommand("perplexity", "how well a model foretells a text");
  add_model_options(*sub, o.model);
  sub->add_option("FILE", o.file, "the text, in UTF-8")->required();
  sub->add_option("--context", o.context,
                  "tokens of a window, whose later half is scored; what is left over is not")
      ->capture_default_str()
      ->check(CLI::Range(2u, kMostTokens));
  sub->add_flag("--json", o.json, "as JSON");
  sub->callback([&] { command = [&] { return perplexity(o); }; });
}

void add_logits(CLI::App& app, LogitsOptions& o, Command& command) {
  auto* sub = app.add_subcommand("logits", "the logits behind the last of some tokens, as JSON");
  add_model_options(*sub, o.model);
  add_list(*sub, "--tokens", o.tokens, "token ids, as 1,2,3")->required();
  sub->callback([&] { command = [&] { return logits(o); }; });
}

void add_bench(CLI::App& app, BenchOptions& o, Command& command) {
  auto* sub = app.add_subcommand("bench", "measure prefill and decode in tokens per second");
  add_model_options(*sub, o.model);
  const auto most_tokens = CLI::Range(0u, kMostTokens);
  sub->add_option("--prompt", o.n_prompt, "tokens of prefill")
      ->capture_default_str()
      ->check(most_tokens);
  sub->add_option("--generate", o.n_generate, "tokens of decode per sequence")
      ->capture_default_str()
      ->check(most_tokens);
  add_list(*sub, "--sequences", o.sequences, "sequences decoding at once, as 1,4,16")
      ->check(CLI::Range(1u, 4096u));
  add_list(*sub, "--depth", o.depths, "tokens already in the context, as 0,4096")
      ->check(most_tokens);
  sub->add_flag("--json", o.json, "as JSON");
  sub->callback([&] {
    if (o.n_prompt == 0 && o.n_generate == 0) {
      throw CLI::ValidationError("--prompt and --generate are both 0: nothing is left to measure");
    }
    command = [&] { return bench(o); };
  });
}

void add_quantize(CLI::App& app, QuantizeOptions& o, Command& command) {
  auto* sub = app.add_subcommand("quantize", "write a model with fewer bits a weight");
  sub->add_option("IN", o.in, "a GGUF file or a Hugging Face folder, best in f16, bf16 or f32")
      ->required();
  auto* out = sub->add_option("OUT", o.out, "the GGUF file to write");
  auto* dry_run = sub->add_flag("--dry-run", o.dry_run, "write nothing, print each tensor's type");
  sub->add_option("--type", o.type, "Q4_K_M, Q8_0, IQ3_XXS, ... (docs/quantize.md)")
      ->required()
      ->check(known_mixture);
  sub->add_flag("--pure", o.pure, "the same type for all weights");
  sub->add_option("--imatrix", o.imatrix, "which columns count, as `backplane imatrix` measures");
  add_number(*sub, "--threads", o.n_threads, "threads to compute with (0: one per core)");
  sub->callback([&, out, dry_run] {
    if (out->empty() == dry_run->empty())
      throw CLI::ValidationError("give either OUT or --dry-run");
    command = [&] { return quantize(o); };
  });
}

void add_imatrix(CLI::App& app, ImatrixOptions& o, Command& command) {
  auto* sub = app.add_subcommand("imatrix", "measure which columns of the weights count");
  sub->add_option("MODEL", o.model, kModelHelp)->required();
  sub->add_option("FILE", o.file, "a text like those that the model is for, in UTF-8")->required();
  sub->add_option("--output", o.output, "the file to write, for `quantize --imatrix`")->required();
  sub->add_option("--context", o.context, "tokens of a window; what is left over is not run")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1u << 20));
  add_number(*sub, "--chunks", o.n_chunks, "windows to run (0: all)");
  sub->add_option("--backend", o.backend, "the backend plugin; 'reference' computes in float32")
      ->default_val("cpu");
  add_number(*sub, "--threads", o.n_threads, "threads to compute with (0: one per core)");
  sub->callback([&] { command = [&] { return imatrix(o); }; });
}

void add_limits(CLI::App& sub, simulate::LimitOverrides& l) {
  const auto some = CLI::Range(1u, 1u << 30);
  sub.add_option("--blocks", l.n_blocks, "KV blocks (2048)")->check(some);
  sub.add_option("--block-size", l.block_size, "tokens of a block (64)")->check(some);
  sub.add_option("--max-step-tokens", l.max_step_tokens, "tokens of a step (512)")->check(some);
  sub.add_option("--max-sequences", l.max_sequences, "sequences of a step (64)")->check(some);
  sub.add_option("--max-queue", l.max_queue,
                 "requests shown to the scheduler before their first step; others wait before the "
                 "door (256; 0: no limit)")
      ->check(CLI::Range(0u, 1u << 30));
  sub.add_option("--max-step-ms", l.max_step_ms, "predicted time of a step (500)")->check(some);
  sub.add_flag_callback(
      "--no-prefix-cache", [&l] { l.prefix_cache = false; }, "share no blocks");
}

void add_simulate(CLI::App& app, SimulateOptions& o, Command& command) {
  auto* sub = app.add_subcommand("simulate", "replay a trace of requests against a scheduler");
  sub->add_option("TRACE", o.trace, "requests as .csv or .jsonl, or YAML that describes them")
      ->required();
  sub->add_option("--scheduler", o.scheduler, "the scheduler plugin")->required();
  sub->add_option("--set", o.settings, "KEY=VALUE of the scheduler's configuration; repeatable")
      ->allow_extra_args(false);
  sub->add_option("--plugin-path", o.plugin_path, "a folder with plugins; repeatable")
      ->allow_extra_args(false);
  sub->add_option("--cost", o.cost,
                  "what a step costs: a file of `backplane bench --json`, or YAML with step_us");
  add_limits(*sub, o.limits);
  add_number(*sub, "--seed", o.seed, "of a synthetic trace, instead of its own");
  sub->add_option("--plot", o.plot, "write a picture (SVG) to this file");
  sub->add_flag("--json", o.json, "as JSON");
  sub->callback([&] { command = [&] { return simulate(o); }; });
}

struct AllOptions {
  ServeOptions serve;
  RunOptions run;
  PluginsOptions plugins;
  InspectOptions inspect;
  TokenizeOptions tokenize;
  RenderOptions render;
  LogitsOptions logits;
  PerplexityOptions perplexity;
  BenchOptions bench;
  QuantizeOptions quantize;
  ImatrixOptions imatrix;
  SimulateOptions simulate;
};

// A word that is no command; all begin with one.
void check_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  const bool is_option = word.empty() || word[0] == '-';
  if (is_option || std::ranges::find(known, word) != known.end()) return;
  throw CLI::ValidationError("there is no command '" + word + "'" +
                             base::nearest_hint(word, known));
}

// Standard output that cannot be written, and memory that runs out, are failures like others.
Status guarded(const Command& command) {
  try {
    BP_TRY(command());
  } catch (const std::exception& e) {
    return internal_error(e.what());
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return io_error("standard output cannot be written");
}

int execute(const Command& command) {
  const Status status = guarded(command);
  if (status.ok()) return kDone;
  std::fprintf(stderr, "backplane: %s\n", status.message().c_str());
  return kFailed;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  std::signal(SIGPIPE,
              SIG_IGN);  // a reader that went away is an error of write, not of the process
  set_up_log();
  model::install_map_guard();  // a model file cut short under us ends in a sentence
  CLI::App app("Backplane: a runtime for large language models", "backplane");
  app.set_version_flag("--version", BACKPLANE_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  AllOptions options;
  Command command;
  add_serve(app, options.serve, command);
  add_run(app, options.run, command);
  add_plugins(app, options.plugins, command);
  add_inspect(app, options.inspect, command);
  add_tokenize(app, options.tokenize, command);
  add_render(app, options.render, command);
  add_logits(app, options.logits, command);
  add_perplexity(app, options.perplexity, command);
  add_bench(app, options.bench, command);
  add_quantize(app, options.quantize, command);
  add_imatrix(app, options.imatrix, command);
  add_simulate(app, options.simulate, command);
  try {
    check_command(app, argc > 1 ? argv[1] : "");
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kDone : kWrongCommandLine;
  }
  return execute(command);
}

}  // namespace bp::cli

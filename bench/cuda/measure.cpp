// Times steps of a backend plugin on a model of real shape and random weights.
// usage: measure PLUGIN.plugin.yaml SHAPE DTYPE [KEY=VALUE ...] [decode:SEQUENCES:DEPTH ...]
//        [prefill:TOKENS:DEPTH ...] [--steps N] [--sample best|draw|candidates] [--ahead]
// Prints a line for each: the median step, tokens per second, and bytes of weights read per second.
// --ahead: decodes again, each from what the step before chose, submitted while that one runs; what
// a step takes less is what the device waited for the host between steps.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "backplane/dtype.hpp"
#include "bench/cuda/shapes.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/device_sampling.hpp"

namespace {

using namespace bp;
using namespace bp::conformance;
using Clock = std::chrono::steady_clock;

struct Task {
  bool is_decode;
  uint32_t n;      // sequences of one token, or tokens of one sequence
  uint32_t depth;  // tokens that are cached
};

struct Arguments {
  std::string plugin;
  bench::Shape shape{};
  bp_dtype dtype = BP_DTYPE_NONE;
  Options options;
  std::vector<Task> tasks;
  uint32_t n_steps = 30;
  std::string sample;  // what the backend chooses itself; empty: rows of logits come to the host
  bool ahead = false;
};

int usage(const std::string& wrong) {
  std::fprintf(stderr, "measure: %s\n", wrong.c_str());
  return 2;
}

class Bench {
 public:
  Bench(const Arguments& arguments, Subject& subject)
      : arguments_(arguments),
        factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
        session_(factory_, nullptr, &subject.params()) {
    bench::build_model(arguments.shape, arguments.dtype, builder_);
    auto options = make_growable<bp_compile_options>();
    uint32_t n_cached = 0;
    for (const Task& task : arguments.tasks) {
      const uint32_t context = task.depth + (task.is_decode ? 1 : task.n);
      options.max_context = std::max(options.max_context, context);
      options.max_step_tokens = std::max(options.max_step_tokens, task.n);
      options.max_sequences = std::max(options.max_sequences, task.is_decode ? task.n : 1);
      n_cached =
          std::max(n_cached, task.is_decode ? task.n * (context + kSlack) : context + kSlack);
    }
    options.max_output_rows = options.max_sequences;
    const auto begin = Clock::now();
    const Status status = session_.try_compile(builder_.build(), options);
    if (!status.ok()) throw Failure("compile: " + status.message());
    const bp_memory_info memory = session_.memory();
    block_size_ = memory.block_size;
    n_blocks_ = n_cached / block_size_ + options.max_sequences + 2;
    session_.allocate(1, n_blocks_);
    std::printf("%s %s: ready after %.1f s, weights %.2f GB, workspace %.2f GB\n",
                std::string(arguments.shape.name).c_str(),
                std::string(dtype_name(arguments.dtype)).c_str(), seconds_since(begin),
                static_cast<double>(memory.weights_bytes) * 1e-9,
                static_cast<double>(memory.workspace_bytes) * 1e-9);
  }

  void run(const Task& task) {
    std::vector<double> seconds;
    for (uint32_t i = 0; i < arguments_.n_steps + kWarmUp; ++i) {
      BatchBuilder builder = batch_of(task);
      const bp_batch batch = builder.build(1);
      const auto begin = Clock::now();
      const Status status = session_.run(batch);
      if (!status.ok()) throw Failure(status.message());
      if (i >= kWarmUp) seconds.push_back(seconds_since(begin));
    }
    const double median = median_of(seconds);
    const uint64_t n_bytes = row_bytes(arguments_.dtype, arguments_.shape.n_weights());
    std::printf(
        "%s n %u depth %u: median %.3f ms (%.3f to %.3f), %.1f tokens/s, weights %.0f GB/s\n",
        task.is_decode ? "decode" : "prefill", task.n, task.depth, median * 1e3,
        seconds.front() * 1e3, seconds.back() * 1e3, task.n / median,
        static_cast<double>(n_bytes) * 1e-9 / median);
    if (arguments_.ahead && task.is_decode) run_ahead(task, median);
    std::fflush(stdout);
  }

 private:
  static constexpr uint32_t kWarmUp = 3;
  static constexpr uint32_t kSlack = 256;  // tokens that a last block may leave unused
  static constexpr size_t kCandidates = 64;

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  static double median_of(std::vector<double>& seconds) {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

  // Two steps in flight; `alone` is the median of one at a time.
  void run_ahead(const Task& task, double alone) {
    if (session_.memory().max_in_flight < 2)
      throw Failure("--ahead: one step is in flight at most");
    BatchBuilder first = batch_of(task);
    std::array<BatchBuilder, 2> others = {batch_of(task, true), batch_of(task, true)};
    const std::array<bp_batch, 2> batches = {others[0].build(1), others[1].build(1)};
    std::vector<double> seconds;
    uint64_t ticket = submit(first.build(1));
    auto begin = Clock::now();
    for (uint32_t i = 0; i < arguments_.n_steps + kWarmUp; ++i) {
      const uint64_t next = submit(batches[i % 2]);
      collect(std::exchange(ticket, next));
      if (i >= kWarmUp) seconds.push_back(seconds_since(begin));
      begin = Clock::now();
    }
    collect(ticket);
    const double median = median_of(seconds);
    std::printf("  ahead: median %.3f ms (%.3f to %.3f), %.1f tokens/s, %.0f us less\n",
                median * 1e3, seconds.front() * 1e3, seconds.back() * 1e3, task.n / median,
                (alone - median) * 1e6);
  }
  uint64_t submit(const bp_batch& batch) {
    uint64_t ticket = 0;
    bp_error error{};
    const bp_status status = factory_.submit(session_.executable(), &batch, &ticket, &error);
    if (status != BP_OK) throw Failure(from_c(status, error).message());
    return ticket;
  }
  void collect(uint64_t ticket) {
    bp_error error{};
    const bp_status status = factory_.collect(session_.executable(), ticket, &error);
    if (status != BP_OK) throw Failure(from_c(status, error).message());
  }

  // Of rows of which no logits are wanted.
  std::vector<bp_row_request> requests_of(size_t n_rows) {
    const std::string& how = arguments_.sample;
    bp_row_request request = plain_request();
    if (how == "best") request = best_request();
    if (how == "draw") request = draw_request(0, -3, 1.25f, 0.5);
    if (how == "candidates") request.n_candidates = kCandidates;
    candidates_.resize(n_rows * kCandidates);
    std::vector<bp_row_request> requests(n_rows, request);
    for (size_t r = 0; r < n_rows; ++r)
      requests[r].candidates = candidates_.data() + r * kCandidates;
    return requests;
  }
  BatchBuilder batch_of(const Task& task, bool by_rows = false) {
    BatchBuilder batch;
    const uint32_t n_seqs = task.is_decode ? task.n : 1, n_tokens = task.is_decode ? 1 : task.n;
    const uint32_t n_each = (task.depth + n_tokens + block_size_ - 1) / block_size_;
    std::vector<uint32_t> rows;
    for (uint32_t s = 0; s < n_seqs; ++s) {
      std::vector<int32_t> tokens(n_tokens), blocks(n_each);
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(s % 17));
      for (int32_t& token : tokens) token %= static_cast<int32_t>(arguments_.shape.n_vocab);
      if (by_rows) tokens = {-1 - static_cast<int32_t>(s)};
      std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(1 + s * n_each));
      batch.add_sequence(tokens, static_cast<int32_t>(task.depth), blocks);
      rows.push_back((s + 1) * n_tokens - 1);
    }
    if (arguments_.sample.empty()) {
      batch.add_output(0, rows, arguments_.shape.n_vocab);
    } else {
      batch.add_sampled_output(0, rows, arguments_.shape.n_vocab, requests_of(rows.size()));
    }
    return batch;
  }

  const Arguments& arguments_;
  ProgramBuilder builder_;
  bp_backend_factory factory_;
  BackendSession session_;
  uint32_t block_size_ = 0, n_blocks_ = 0;
  std::vector<bp_candidate> candidates_;
};

bool add_task(const std::string& text, std::vector<Task>& tasks) {
  Task task{text.rfind("decode:", 0) == 0, 0, 0};
  if (!task.is_decode && text.rfind("prefill:", 0) != 0) return false;
  if (std::sscanf(text.c_str() + text.find(':'), ":%u:%u", &task.n, &task.depth) != 2) return false;
  tasks.push_back(task);
  return task.n > 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return usage("PLUGIN.plugin.yaml SHAPE DTYPE are needed");
  Arguments arguments;
  arguments.plugin = argv[1];
  const auto shape = bench::find_shape(argv[2]);
  const auto dtype = dtype_from_name(argv[3]);
  if (!shape || !dtype) return usage("the shape or the dtype is unknown");
  arguments.shape = *shape;
  arguments.dtype = *dtype;
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--steps" && i + 1 < argc) {
      arguments.n_steps = static_cast<uint32_t>(std::atoi(argv[++i]));
    } else if (text == "--sample" && i + 1 < argc) {
      arguments.sample = argv[++i];
    } else if (text == "--ahead") {
      arguments.ahead = true;
    } else if (text.find('=') != std::string::npos) {
      arguments.options.set.push_back(text);
    } else if (!add_task(text, arguments.tasks)) {
      return usage(text + " is no task");
    }
  }
  if (arguments.ahead && arguments.sample != "best" && arguments.sample != "draw") {
    return usage("--ahead needs --sample best or draw");
  }
  auto subject = Subject::open(arguments.plugin, arguments.options);
  if (!subject.ok()) return usage(subject.status().message());
  try {
    Bench bench(arguments, **subject);
    for (const Task& task : arguments.tasks) bench.run(task);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "measure: %s\n", e.what());
    return 1;
  }
  return 0;
}

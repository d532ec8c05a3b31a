// Times steps of a backend plugin on a model of real shape and random weights.
// usage: measure PLUGIN.plugin.yaml SHAPE DTYPE [KEY=VALUE ...] [decode:SEQUENCES:DEPTH ...]
//        [prefill:TOKENS:DEPTH ...] [--steps N] [--sample best|draw|candidates]
// Prints a line for each: the median step, tokens per second, and bytes of weights read per second.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/ext/device_sampling.h"
#include "bench/cuda/shapes.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"

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
};

// An output of a batch of which no row of logits is wanted.
class Sampled {
 public:
  Sampled(bp_batch& batch, const std::string& how) : output_(*batch.outputs[0]) {
    bp_row_request request{};
    request.token = -1;
    request.choice = how == "best"   ? BP_CHOOSE_BEST
                     : how == "draw" ? BP_CHOOSE_DRAW
                                     : BP_CHOOSE_NONE;
    request.floor = -3;
    request.scale = 1.25f;
    request.uniform = 0.5;
    request.n_candidates = how == "candidates" ? kCandidates : 0;
    requests_.assign(output_.n_rows, request);
    results_.resize(output_.n_rows);
    candidates_.resize(output_.n_rows * kCandidates);
    for (uint32_t r = 0; r < output_.n_rows; ++r) {
      requests_[r].candidates = candidates_.data() + r * kCandidates;
    }
    sampling_ = make_growable<bp_sampling>();
    sampling_.requests = requests_.data();
    sampling_.results = results_.data();
    output_.required = BP_OUTPUT_SAMPLING;
    output_.sampling = &sampling_;
    batch.outputs = outputs_;
  }
  Sampled(const Sampled&) = delete;
  Sampled& operator=(const Sampled&) = delete;

 private:
  static constexpr size_t kCandidates = 64;
  bp_output output_;
  const bp_output* outputs_[1] = {&output_};
  bp_sampling sampling_{};
  std::vector<bp_row_request> requests_;
  std::vector<bp_row_result> results_;
  std::vector<bp_candidate> candidates_;
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
      bp_batch batch = builder.build(1);
      std::optional<Sampled> sampled;
      if (!arguments_.sample.empty()) sampled.emplace(batch, arguments_.sample);
      const auto begin = Clock::now();
      const Status status = session_.run(batch);
      if (!status.ok()) throw Failure(status.message());
      if (i >= kWarmUp) seconds.push_back(seconds_since(begin));
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const uint64_t n_bytes = row_bytes(arguments_.dtype, arguments_.shape.n_weights());
    std::printf(
        "%s n %u depth %u: median %.3f ms (%.3f to %.3f), %.1f tokens/s, weights %.0f GB/s\n",
        task.is_decode ? "decode" : "prefill", task.n, task.depth, median * 1e3,
        seconds.front() * 1e3, seconds.back() * 1e3, task.n / median,
        static_cast<double>(n_bytes) * 1e-9 / median);
    std::fflush(stdout);
  }

 private:
  static constexpr uint32_t kWarmUp = 3;
  static constexpr uint32_t kSlack = 256;  // tokens that a last block may leave unused

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  BatchBuilder batch_of(const Task& task) const {
    BatchBuilder batch;
    const uint32_t n_seqs = task.is_decode ? task.n : 1, n_tokens = task.is_decode ? 1 : task.n;
    const uint32_t n_each = (task.depth + n_tokens + block_size_ - 1) / block_size_;
    std::vector<uint32_t> rows;
    for (uint32_t s = 0; s < n_seqs; ++s) {
      std::vector<int32_t> tokens(n_tokens), blocks(n_each);
      std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(s % 17));
      for (int32_t& token : tokens) token %= static_cast<int32_t>(arguments_.shape.n_vocab);
      std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(1 + s * n_each));
      batch.add_sequence(tokens, static_cast<int32_t>(task.depth), blocks);
      rows.push_back((s + 1) * n_tokens - 1);
    }
    batch.add_output(0, rows, arguments_.shape.n_vocab);
    return batch;
  }

  const Arguments& arguments_;
  ProgramBuilder builder_;
  bp_backend_factory factory_;
  BackendSession session_;
  uint32_t block_size_ = 0, n_blocks_ = 0;
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
    } else if (text.find('=') != std::string::npos) {
      arguments.options.set.push_back(text);
    } else if (!add_task(text, arguments.tasks)) {
      return usage(text + " is no task");
    }
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

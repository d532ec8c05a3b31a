#include "bench/cuda/step_bench.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>

#include "sdk/conformance/support/device_sampling.hpp"

namespace bp::bench {

namespace {

using namespace conformance;

constexpr uint32_t kWarmUp = 3;
constexpr uint32_t kChunk = 2048;  // tokens of a step that fills the cache
constexpr uint32_t kTransfers = 5;
constexpr size_t kCandidates = 64;

// Calls cuProfilerStart or cuProfilerStop of the driver, where there is one.
void tell_profiler(const char* function) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return;
  if (void* const found = dlsym(driver, function)) reinterpret_cast<int (*)()>(found)();
  dlclose(driver);
}

double us_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

StepBench::StepBench(const Arguments& arguments, Subject& subject)
    : arguments_(arguments),
      factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
      session_(factory_, &device_times_.host(), &subject.params()) {
  build_model(arguments.shape, arguments.mix, builder_);
  const auto begin = Clock::now();
  const Status status = session_.try_compile(builder_.build(), compile_options());
  if (!status.ok()) throw Failure("compile: " + status.message());
  for (const Task& task : arguments.tasks) {
    if (task.is_transfer && !transfers_) transfers_.emplace(session_);
  }
  const bp_memory_info memory = session_.memory();
  block_size_ = memory.block_size;
  session_.allocate(1, n_blocks_needed());
  std::printf("%s %s: ready after %.1f s, weights %.2f GB, workspace %.2f GB\n",
              std::string(arguments.shape.name).c_str(), arguments.types.c_str(),
              us_since(begin) * 1e-6, static_cast<double>(memory.weights_bytes) * 1e-9,
              static_cast<double>(memory.workspace_bytes) * 1e-9);
}

uint32_t StepBench::context_of(const Task& task) {
  return task.depth + std::max(1u, task.n_prefill);
}

bp_compile_options StepBench::compile_options() const {
  auto options = make_growable<bp_compile_options>();
  options.k_dtype = options.v_dtype = arguments_.kv;
  for (const Task& task : arguments_.tasks) {
    const uint32_t n_step = task.is_transfer ? 0 : task.n_decode + task.n_prefill;
    const uint32_t n_fill = task.is_transfer ? task.n_prefill : task.depth;
    options.max_context = std::max(options.max_context, context_of(task));
    options.max_step_tokens = std::max({options.max_step_tokens, n_step, std::min(n_fill, kChunk)});
    options.max_sequences =
        std::max(options.max_sequences, task.n_decode + (task.n_prefill > 0 ? 1 : 0));
  }
  options.max_output_rows = options.max_sequences;
  return options;
}

uint32_t StepBench::n_blocks_needed() const {
  uint32_t most = 0;
  for (const Task& task : arguments_.tasks) {
    const uint32_t each = (context_of(task) + block_size_ - 1) / block_size_;
    most = std::max(most, each * (task.n_decode + 1));
  }
  return most + 1;
}

void StepBench::must_run(const bp_batch& batch) {
  const Status status = session_.run(batch);
  if (!status.ok()) throw Failure(status.message());
}

StepBench::Blocks StepBench::blocks_of(uint32_t sequence, uint32_t n_tokens) const {
  Blocks blocks((n_tokens + block_size_ - 1) / block_size_);
  std::iota(blocks.begin(), blocks.end(),
            static_cast<int32_t>(1 + sequence * blocks_per_sequence_));
  return blocks;
}

// Far apart, so that experts are chosen as by a text.
std::vector<int32_t> StepBench::tokens_of(uint32_t sequence, uint32_t n) const {
  std::vector<int32_t> tokens(n);
  for (uint32_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<int32_t>((uint64_t{sequence} * 7919 + uint64_t{i} * 104729) %
                                     arguments_.shape.n_vocab);
  }
  return tokens;
}

// What is cached is what steps wrote: noise would make NaN of everything.
void StepBench::fill(const Task& task) {
  blocks_per_sequence_ = (context_of(task) + block_size_ - 1) / block_size_;
  compute_context(task.depth);
  copy_context(task);
}

void StepBench::compute_context(uint32_t n_tokens) {
  const std::vector<int32_t> tokens = tokens_of(0, n_tokens);
  for (uint32_t begin = 0; begin < n_tokens; begin += kChunk) {
    const uint32_t end = std::min(begin + kChunk, n_tokens);
    BatchBuilder batch;
    batch.add_sequence({tokens.begin() + begin, tokens.begin() + end}, static_cast<int32_t>(begin),
                       blocks_of(0, end));
    must_run(batch.build(1));
  }
}

// The context of the first sequence becomes that of the others, each in blocks of its own. The step
// that comes with it computes the first's last token again.
void StepBench::copy_context(const Task& task) {
  const uint32_t n_seqs = task.n_decode + (task.n_prefill > 0 ? 1 : 0);
  const Blocks from = blocks_of(0, task.depth);
  const std::vector<int32_t> tokens = tokens_of(0, task.depth);
  for (uint32_t s = 1; s < n_seqs && !from.empty(); ++s) {
    BatchBuilder batch;
    const Blocks to = blocks_of(s, task.depth);
    for (size_t i = 0; i < from.size(); ++i)
      batch.add_block_op({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, 0, from[i], to[i]});
    batch.add_sequence({tokens.back()}, static_cast<int32_t>(task.depth) - 1, from);
    must_run(batch.build(1));
  }
}

void StepBench::run(const Task& task) {
  task.is_transfer ? run_transfer(task) : run_step(task);
  std::fflush(stdout);
}

void StepBench::run_step(const Task& task) {
  fill(task);
  const Times alone = time_alone(task);
  const uint32_t n_tokens = task.n_decode + task.n_prefill;
  const double us = alone.median_us();
  std::printf("%s %s: median %.3f ms (%.3f to %.3f), %.1f tokens/s, weights %.0f GB/s\n",
              task.title.c_str(), arguments_.sample.empty() ? "logits" : arguments_.sample.c_str(),
              us * 1e-3, alone.wall_us.front() * 1e-3, alone.wall_us.back() * 1e-3,
              n_tokens * 1e6 / us,
              weight_bytes(arguments_.shape, arguments_.mix, n_tokens) * 1e-3 / us);
  std::optional<Times> ahead;
  if (arguments_.ahead && task.n_prefill == 0) {
    ahead = time_ahead(task);
    std::printf("  ahead: median %.3f ms (%.3f to %.3f), %.1f tokens/s, %.0f us less\n",
                ahead->median_us() * 1e-3, ahead->wall_us.front() * 1e-3,
                ahead->wall_us.back() * 1e-3, n_tokens * 1e6 / ahead->median_us(),
                us - ahead->median_us());
  }
  print_idle(alone, ahead);
}

// The device's time of a step begins when it takes the first of the step's work. Of a step alone it
// covers waiting for the rest to be submitted; of a step ahead all of it is there.
void StepBench::print_idle(const Times& alone, const std::optional<Times>& ahead) const {
  if (alone.device_us <= 0) return;
  const double busy = ahead ? std::min(alone.device_us, ahead->device_us) : alone.device_us;
  std::printf("  device %.1f us, idle %.1f us alone", busy, alone.median_us() - busy);
  if (ahead) std::printf(", %.1f us ahead", ahead->median_us() - busy);
  std::printf("\n");
}

StepBench::Times StepBench::time_alone(const Task& task) {
  Times times;
  device_times_.forget();
  for (uint32_t i = 0; i < arguments_.n_steps + kWarmUp; ++i) {
    BatchBuilder builder = batch_of(task);
    const bp_batch batch = builder.build(1);
    if (i == kWarmUp && arguments_.profile) tell_profiler("cuProfilerStart");
    const auto begin = Clock::now();
    must_run(batch);
    if (i >= kWarmUp) times.wall_us.push_back(us_since(begin));
  }
  if (arguments_.profile) tell_profiler("cuProfilerStop");
  times.device_us = device_times_.median_us(arguments_.n_steps);
  std::sort(times.wall_us.begin(), times.wall_us.end());
  return times;
}

// Each step from what the one before chose, submitted while that one runs.
StepBench::Times StepBench::time_ahead(const Task& task) {
  if (session_.memory().max_in_flight < 2) throw Failure("--ahead: one step is in flight at most");
  BatchBuilder first = batch_of(task);
  std::array<BatchBuilder, 2> others = {batch_of(task, true), batch_of(task, true)};
  const std::array<bp_batch, 2> batches = {others[0].build(1), others[1].build(1)};
  Times times;
  device_times_.forget();
  uint64_t ticket = submit(first.build(1));
  auto begin = Clock::now();
  for (uint32_t i = 0; i < arguments_.n_steps + kWarmUp; ++i) {
    const uint64_t next = submit(batches[i % 2]);
    collect(std::exchange(ticket, next));
    if (i >= kWarmUp) times.wall_us.push_back(us_since(begin));
    begin = Clock::now();
  }
  collect(ticket);
  times.device_us = device_times_.median_us(arguments_.n_steps);
  std::sort(times.wall_us.begin(), times.wall_us.end());
  return times;
}

void StepBench::run_transfer(const Task& task) {
  std::vector<double> out_us, in_us, again_us;
  blocks_per_sequence_ = (task.n_prefill + block_size_ - 1) / block_size_;
  const Blocks blocks = blocks_of(0, task.n_prefill);
  KvTransferClient::Bytes images(blocks.size() * transfers_->image_bytes(0));
  for (uint32_t i = 0; i < kTransfers; ++i) {
    auto begin = Clock::now();
    compute_context(task.n_prefill);
    again_us.push_back(us_since(begin));
    begin = Clock::now();
    const Status left = transfers_->try_export(0, blocks, images);
    out_us.push_back(us_since(begin));
    begin = Clock::now();
    const Status entered = left.ok() ? transfers_->try_import(0, blocks, images) : left;
    in_us.push_back(us_since(begin));
    if (!entered.ok()) throw Failure("transfer: " + entered.message());
  }
  const double out = median_of(out_us), in = median_of(in_us);
  const double kb = static_cast<double>(images.size()) * 1e-3;
  std::printf("%s: %.1f MB, out %.3f ms (%.1f GB/s), in %.3f ms (%.1f GB/s), computed %.3f ms\n",
              task.title.c_str(), kb * 1e-3, out * 1e-3, kb / out, in * 1e-3, kb / in,
              median_of(again_us) * 1e-3);
}

uint64_t StepBench::submit(const bp_batch& batch) {
  uint64_t ticket = 0;
  bp_error error{};
  const bp_status status = factory_.submit(session_.executable(), &batch, &ticket, &error);
  if (status != BP_OK) throw Failure(from_c(status, error).message());
  return ticket;
}
void StepBench::collect(uint64_t ticket) {
  bp_error error{};
  const bp_status status = factory_.collect(session_.executable(), ticket, &error);
  if (status != BP_OK) throw Failure(from_c(status, error).message());
}

// Of rows of which no logits are wanted.
std::vector<bp_row_request> StepBench::requests_of(size_t n_rows) {
  const std::string& how = arguments_.sample;
  bp_row_request request = plain_request();
  if (how == "best") request = best_request();
  if (how == "draw") request = draw_request(0, -3, 1.25f, 0.5);
  if (how == "candidates") request.n_candidates = kCandidates;
  candidates_.resize(n_rows * kCandidates);
  std::vector<bp_row_request> requests(n_rows, request);
  for (size_t r = 0; r < n_rows; ++r) requests[r].candidates = candidates_.data() + r * kCandidates;
  return requests;
}

// by_rows: tokens are what the step before chose from the same rows.
BatchBuilder StepBench::batch_of(const Task& task, bool by_rows) {
  BatchBuilder batch;
  std::vector<uint32_t> rows;
  const uint32_t n_seqs = task.n_decode + (task.n_prefill > 0 ? 1 : 0);
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const uint32_t n = s < task.n_decode ? 1 : task.n_prefill;
    std::vector<int32_t> tokens = tokens_of(s, n);
    if (by_rows) tokens = {-1 - static_cast<int32_t>(s)};
    batch.add_sequence(tokens, static_cast<int32_t>(task.depth), blocks_of(s, task.depth + n));
    rows.push_back(batch.n_tokens() - 1);
  }
  if (arguments_.sample.empty()) {
    batch.add_output(0, rows, arguments_.shape.n_vocab);
  } else {
    batch.add_sampled_output(0, rows, arguments_.shape.n_vocab, requests_of(rows.size()));
  }
  return batch;
}

}  // namespace bp::bench

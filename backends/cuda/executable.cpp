#include "backends/cuda/executable.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backends/cuda/rehearsal.hpp"
#include "backplane/validate_batch.hpp"

namespace bp::cuda {

CudaExecutable::CudaExecutable(const Host& host, std::shared_ptr<Device> device,
                               std::shared_ptr<const ProgramView> program,
                               const bp_compile_options& options, const Settings& settings,
                               KvCache kv)
    : host_(host),
      device_(std::move(device)),
      program_(std::move(program)),
      options_(options),
      settings_(settings),
      kv_(std::move(kv)),
      states_(program_->state_slots()),
      transfer_(*program_, kv_) {
  options_.progress = nullptr;
}

// Memory goes back when nothing uses it any more.
CudaExecutable::~CudaExecutable() {
  if (stream_ != nullptr) static_cast<void>(stream_->synchronize());
}

StepShape CudaExecutable::largest_shape(const bp_compile_options& options) {
  StepShape most;
  most.n_tokens = options.max_step_tokens;
  most.n_seqs = options.max_sequences;
  most.n_output_rows.fill(options.max_output_rows);
  most.n_samples = options.max_output_rows;
  most.longest_context = options.max_context;
  return most;
}

Status CudaExecutable::prepare(Plan plan) {
  plan_ = std::move(plan);
  BP_ASSIGN(stream_, device_->make_stream());
  if (device_->info().has_matrix_library) {
    BP_ASSIGN(library_, device_->make_matrix_library(*stream_));
  }
  const StepShape most = largest_shape(options_);
  const size_t n_bytes = lay_out(plan_.buffers, most);
  BP_ASSIGN(workspace_, device_->allocate(MemoryKind::kDevice, n_bytes, "the workspace of a step"));
  for (const uint32_t n : plan_.vocabularies) n_ids_ = std::min(n_ids_, n);
  for (const uint32_t n : plan_.positions) n_positions_ = std::min(n_positions_, n);
  BP_TRY(outputs_.allocate(*device_, plan_, options_.max_output_rows));
  BP_TRY(sampler_.allocate(*device_, plan_, options_.max_output_rows));
  plan_.stages.push_back({"the choice of tokens", [this](const StageContext& context) {
                            return sampler_.enqueue(context);
                          }});
  ArenaLimits limits;
  limits.most = most;
  limits.max_sequences = options_.max_sequences;
  limits.max_context = options_.max_context;
  limits.block_size = kv_.block_size();
  limits.n_groups = program_->header().n_kv_groups;
  limits.n_outputs = program_->header().n_outputs;
  limits.has_states = states_.n_slots() > 0;
  BP_TRY(arena_.allocate(*device_, limits));
  BP_TRY(prepare_host_memory());
  return load_kernels();
}

// Before memory tells what is free: kernels and what the library loads take of it.
Status CudaExecutable::load_kernels() {
  const StepShape most = largest_shape(options_);
  KernelLoader loader(*device_);
  BP_ASSIGN(rehearsed_, cuda::load_kernels(plan_, context_of(most),
                                           rehearsal_shapes(most, options_.max_sequences), loader));
  BP_TRY(outputs_.load_kernels(loader));
  BP_TRY(sampler_.put_chosen(loader, arena_.tokens(), 1, n_ids_));
  return stream_->synchronize().with_context("the products of a step");
}

Status CudaExecutable::prepare_host_memory() {
  for (InFlight& step : in_flight_) {
    step.sequence_of.resize(options_.max_step_tokens);
    step.is_running.resize(options_.max_sequences);
    BP_ASSIGN(step.arena, arena_.make_staging(*device_));
    BP_ASSIGN(step.outputs, outputs_.make_room(*device_));
    BP_ASSIGN(step.samples, sampler_.make_room(*device_));
    BP_ASSIGN(step.is_done, device_->make_event());
    if (!settings_.times_steps) continue;
    BP_ASSIGN(step.timer, device_->make_timer());
  }
  chosen_rows_.reserve(options_.max_output_rows);
  chosen_.reserve(options_.max_output_rows);
  return {};
}

Status CudaExecutable::memory(bp_memory_info& out) {
  BP_ASSIGN(const uint64_t free_bytes, device_->free_bytes());
  out.block_size = kv_.block_size();
  out.weights_bytes = plan_.weights_bytes();
  out.workspace_bytes = workspace_.size() + outputs_.n_device_bytes() + sampler_.n_device_bytes() +
                        arena_.n_bytes() + transfer_.n_bytes() +
                        (library_ == nullptr ? 0 : library_->n_bytes());
  out.available_bytes =
      static_cast<uint64_t>(static_cast<double>(free_bytes) * settings_.memory_share);
  out.n_groups = program_->header().n_kv_groups;
  out.max_in_flight = kMaxInFlight;
  for (uint32_t g = 0; g < out.n_groups; ++g) out.block_bytes[g] = kv_.block_bytes(g);
  if (states_.n_slots() > 0) out.block_bytes[out.n_groups++] = states_.entry_bytes();
  out.k_dtype = kv_.k_dtype();
  out.v_dtype = kv_.v_dtype();
  out.is_dedicated = device_->info().shares_host_memory ? 0 : 1;
  return {};
}

Status CudaExecutable::kv_allocate(std::span<const uint32_t> n_blocks) {
  if (kv_.is_allocated()) return invalid_argument("the KV cache is allocated already");
  const bool has_states = states_.n_slots() > 0 && !n_blocks.empty();
  const uint32_t n_entries = has_states ? n_blocks.back() : 0;
  if (has_states) n_blocks = n_blocks.first(n_blocks.size() - 1);
  BP_TRY(states_.allocate(*device_, n_entries));
  const Status status = kv_.allocate(*device_, *stream_, n_blocks);
  if (!status.ok()) {  // the host may ask for less
    states_.release();
    return status;
  }
  return stream_->synchronize();
}

Status CudaExecutable::warm_up(const Progress& progress) {
  if (!kv_.is_allocated()) return invalid_argument("kv_allocate has not been called");
  std::vector<StepShape> graphs;
  if (settings_.uses_graphs && !settings_.waits_after_each_op) {
    graphs = graph_shapes(largest_shape(options_), options_.max_sequences);
  }
  const uint64_t n_all = rehearsed_.size() + graphs.size();
  uint64_t n_done = 0;
  const auto report = [&] {
    return progress.report(n_done++, n_all) ? cancelled("warming up was stopped") : Status();
  };
  if (workspace_.size() > 0) BP_TRY(stream_->fill(workspace_.data(), 0, workspace_.size()));
  for (const StepShape& shape : rehearsed_) {
    BP_TRY(report());
    BP_TRY(rehearse(shape));
  }
  for (const StepShape& shape : graphs) {
    BP_TRY(report());
    BP_TRY(graphs_.capture(plan_, context_of(shape)));
  }
  BP_TRY(stream_->synchronize());
  return report();
}

// A step of padding alone: it writes no KV and no state.
Status CudaExecutable::rehearse(const StepShape& shape) {
  const uint32_t query_start = 0;
  bp_batch nobody = make_growable<bp_batch>();
  nobody.query_start = &query_start;
  const auto step = [&]() -> Status {
    BP_TRY(arena_.send(*stream_, in_flight_[0].arena, nobody, shape, {}));
    BP_TRY(run_stages(context_of(shape)));
    return stream_->synchronize();
  };
  return step().with_context("warming up by a step of " + std::to_string(shape.n_tokens) +
                             " tokens");
}

Status CudaExecutable::validate(const bp_batch& batch) const {
  if (!kv_.is_allocated()) return invalid_argument("kv_allocate has not been called");
  if (last_ticket_ - last_collected_ == kMaxInFlight) {
    return invalid_argument("step " + std::to_string(last_collected_ + 1) + " and " +
                            std::to_string(kMaxInFlight - 1) +
                            " after it are in flight: it must be collected first");
  }
  BatchLimits limits = BatchLimits::of(options_);
  limits.block_size = kv_.block_size();
  limits.n_outputs = static_cast<uint32_t>(plan_.outputs.size());
  limits.n_blocks = kv_.n_blocks();
  limits.n_state_slots = states_.n_slots();
  limits.n_state_entries = states_.n_entries();
  limits.max_candidates = kMaxCandidates;
  limits.output_widths = outputs_.widths();
  limits.takes_chosen = true;
  limits.chosen_rows = chosen_rows_;
  return validate_batch(batch, limits);
}

// Where enqueuing ends half-way, by an error or an exception, the step's memory is in use until the
// stream is done, and what the step before chose may be overwritten: no id can name it any more.
Status CudaExecutable::submit(const bp_batch& batch, uint64_t& ticket) {
  BP_TRY(validate(batch));
  if (std::exchange(is_half_enqueued_, true)) BP_TRY(stream_->synchronize());
  chosen_rows_.clear();
  InFlight& step = step_of(last_ticket_ + 1);
  step.batch = batch;
  BP_TRY(enqueue(step));
  list_chosen_rows(batch, chosen_rows_);
  is_half_enqueued_ = false;
  ticket = ++last_ticket_;
  return {};
}

Status CudaExecutable::enqueue(InFlight& step) {
  step.is_computed = begin_sequences(step);
  if (step.timer != nullptr) BP_TRY(step.timer->begin(*stream_));
  for (uint32_t i = 0; i < step.batch.n_block_ops; ++i) {
    const bp_block_op& op = step.batch.block_ops[i];
    const Status status =
        op.space == BP_BLOCK_OF_STATE ? states_.apply(*stream_, op) : kv_.apply(*stream_, op);
    BP_TRY(status.with_context("block op " + std::to_string(i)));
  }
  if (step.is_computed) BP_TRY(compute(step));
  if (step.timer != nullptr) BP_TRY(step.timer->end(*stream_));
  return stream_->record(*step.is_done);
}

Status CudaExecutable::collect(uint64_t ticket) {
  if (ticket <= last_collected_ || ticket > last_ticket_) {
    return invalid_argument("no step in flight has the ticket " + std::to_string(ticket));
  }
  if (ticket != last_collected_ + 1) {
    return invalid_argument("step " + std::to_string(ticket) + " is collected after step " +
                            std::to_string(last_collected_ + 1) + ", which is in flight");
  }
  const InFlight& step = step_of(ticket);
  last_collected_ = ticket;
  Status status = wait_for(*step.is_done, kPolling);
  if (status.ok() && step.timer != nullptr) status = log_time(step, ticket);
  const bool has_results = status.ok() && step.is_computed;
  if (has_results) {
    poll_stop(step.batch);
    fail_unknown(step.batch);
  }
  chosen_.assign(n_samples_of(step.batch), -1);
  if (!has_results) return failed_in_flight(status, ticket);
  outputs_.hand_over(step.batch, step.sequence_of, step.outputs);
  RowSampler::hand_over(step.batch, step.sequence_of, step.samples, chosen_);
  return {};
}

Status CudaExecutable::log_time(const InFlight& step, uint64_t ticket) const {
  BP_ASSIGN(const double us, step.timer->microseconds());
  host_.log(BP_LOG_DEBUG, "cuda: step " + std::to_string(ticket) + " took " + std::to_string(us) +
                              " us on the device");
  return {};
}

// Work that fails after its submit is not told apart by the device.
Status CudaExecutable::failed_in_flight(const Status& status, uint64_t ticket) const {
  const Status of_step = status.with_context("step " + std::to_string(ticket));
  if (status.ok() || settings_.waits_after_each_op || plan_.stages.empty()) return of_step;
  return {of_step.code(), of_step.message() + "; one of its ops, " + plan_.stages.front().op +
                              " to " + plan_.stages.back().op +
                              ", or one before: `synchronous: true` names it"};
}

Status CudaExecutable::prepare_transfer(bp_kv_image_info& out) {
  if (kv_.is_allocated()) return invalid_argument("transfers are prepared before kv_allocate");
  BP_TRY(transfer_.allocate(*device_));
  KernelLoader loader(*device_);
  BP_TRY(transfer_.load_kernels(loader, kv_));
  transfer_.images().describe(out);
  return {};
}

Status CudaExecutable::export_blocks(uint32_t group, std::span<const int32_t> blocks,
                                     std::span<uint8_t> images) {
  return transfer_.export_blocks(*stream_, kv_, states_, group, blocks, images)
      .with_context("export of KV blocks");
}

Status CudaExecutable::import_blocks(uint32_t group, std::span<const int32_t> blocks,
                                     std::span<const uint8_t> images) {
  return transfer_.import_blocks(*stream_, kv_, states_, group, blocks, images)
      .with_context("import of KV blocks");
}

// Whether some sequence runs: its ids and positions are known, and nobody has stopped it. What ids
// of -1-r stand for is known when the step before is collected.
bool CudaExecutable::begin_sequences(InFlight& step) const {
  const bp_batch& batch = step.batch;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    batch.seq_status[s] = BP_SEQ_OK;
    for (uint32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
      step.sequence_of[t] = s;
      const bool is_known =
          (batch.tokens[t] < 0 || static_cast<uint32_t>(batch.tokens[t]) < n_ids_) &&
          static_cast<uint32_t>(batch.positions[t]) < n_positions_;
      if (!is_known) batch.seq_status[s] = BP_SEQ_FAILED;
    }
  }
  poll_stop(batch);
  bool any = false;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    step.is_running[s] = batch.seq_status[s] == BP_SEQ_OK ? 1 : 0;
    any |= step.is_running[s] != 0 && batch.query_start[s] < batch.query_start[s + 1];
  }
  return any;
}

// Sequences with ids of -1-r that no token came of, or one that is in no table. The step before was
// collected last.
void CudaExecutable::fail_unknown(const bp_batch& batch) const {
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    for (uint32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
      if (batch.tokens[t] >= 0) continue;
      const int32_t id = chosen_[static_cast<size_t>(-1 - batch.tokens[t])];
      const bool is_known = static_cast<uint32_t>(id) < n_ids_;
      if (!is_known && batch.seq_status[s] == BP_SEQ_OK) batch.seq_status[s] = BP_SEQ_FAILED;
    }
  }
}

void CudaExecutable::poll_stop(const bp_batch& batch) {
  if (batch.stop_seq == nullptr) return;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    if (batch.seq_status[s] != BP_SEQ_OK) continue;
    if (__atomic_load_n(&batch.stop_seq[s], __ATOMIC_RELAXED) == 0) continue;
    batch.seq_status[s] = BP_SEQ_STOPPED;
  }
}

StepShape CudaExecutable::shape_of(const bp_batch& batch) {
  StepShape shape;
  shape.n_tokens = batch.n_tokens;
  shape.n_seqs = batch.n_seqs;
  shape.is_decode = true;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    shape.longest_context = std::max(shape.longest_context, batch.context_len[s]);
    if (batch.query_start[s + 1] - batch.query_start[s] > 1) shape.is_decode = false;
  }
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    shape.n_output_rows[output.output] = output.n_rows;
  }
  shape.n_samples = n_samples_of(batch);
  return shape;
}

StageContext CudaExecutable::context_of(const StepShape& shape) {
  return {*stream_, library_.get(), plan_.buffers, workspace_.data(), arena_.view(),
          kv_,      states_,        shape};
}

Status CudaExecutable::compute(const InFlight& step) {
  const bp_batch& batch = step.batch;
  const StepGraphs::Match match = graphs_.find(shape_of(batch));
  BP_TRY(
      arena_.send(*stream_, step.arena, batch, match.shape, {step.is_running.data(), batch.n_seqs})
          .with_context("the batch"));
  // Not in the graphs: steps without such ids do not pay for it.
  if (std::any_of(batch.tokens, batch.tokens + batch.n_tokens, [](int32_t id) { return id < 0; })) {
    BP_TRY(sampler_.put_chosen(*stream_, arena_.tokens(), batch.n_tokens, n_ids_));
  }
  const StageContext context = context_of(match.shape);
  BP_TRY(match.graph != nullptr ? stream_->run(*match.graph).with_context("the graph of the ops")
                                : run_stages(context));
  BP_TRY(outputs_.bring(batch, context, step.outputs).with_context("the outputs"));
  return sampler_.bring(*stream_, batch, step.samples).with_context("the tokens chosen");
}

Status CudaExecutable::run_stages(const StageContext& context) {
  if (!settings_.waits_after_each_op) return plan_.enqueue(context);
  for (const Stage& stage : plan_.stages) {
    BP_TRY(stage.enqueue(context).with_context(stage.op));
    BP_TRY(stream_->synchronize().with_context(stage.op));
  }
  return {};
}

}  // namespace bp::cuda

#include "backends/cuda/executable.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cuda/kernels/columns.hpp"
#include "backplane/validate_batch.hpp"

namespace bp::cuda {

CudaExecutable::CudaExecutable(std::shared_ptr<Device> device,
                               std::shared_ptr<const ProgramView> program,
                               const bp_compile_options& options, const Settings& settings,
                               KvCache kv)
    : device_(std::move(device)),
      program_(std::move(program)),
      options_(options),
      settings_(settings),
      kv_(std::move(kv)),
      states_(program_->state_slots()),
      transfer_(*program_, kv_),
      sequence_of_(options.max_step_tokens),
      is_running_(options.max_sequences) {
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
  BP_ASSIGN(is_done_, device_->make_event());
  if (device_->info().has_matrix_library) {
    BP_ASSIGN(library_, device_->make_matrix_library(*stream_));
  }
  const StepShape most = largest_shape(options_);
  const size_t n_bytes = lay_out(plan_.buffers, most);
  BP_ASSIGN(workspace_, device_->allocate(MemoryKind::kDevice, n_bytes, "the workspace of a step"));
  uint32_t widest = 0, widest_gathered = 0;
  for (const uint32_t buffer : plan_.outputs) {
    const Buffer& b = plan_.buffers[buffer];
    widest = std::max(widest, b.stride());
    if (b.rows == BP_ROWS_TOKENS) widest_gathered = std::max(widest_gathered, b.stride());
  }
  // max_output_rows bounds the rows of all outputs together.
  const size_t n_rows = options_.max_output_rows;
  BP_ASSIGN(outputs_, device_->allocate(MemoryKind::kPinned, n_rows * widest * sizeof(float),
                                        "the outputs of a step"));
  BP_ASSIGN(gathered_,
            device_->allocate(MemoryKind::kDevice, n_rows * widest_gathered * sizeof(float),
                              "the outputs of a step"));
  BP_TRY(sampler_.allocate(*device_, plan_, options_.max_output_rows));
  plan_.stages.push_back({"the choice of tokens", [this](const StageContext& context) {
                            return sampler_.enqueue(context);
                          }});
  for (const uint32_t buffer : plan_.outputs) {
    output_widths_.push_back(plan_.buffers[buffer].width);
  }
  ArenaLimits limits;
  limits.most = most;
  limits.max_sequences = options_.max_sequences;
  limits.max_context = options_.max_context;
  limits.block_size = kv_.block_size();
  limits.n_groups = program_->header().n_kv_groups;
  limits.n_outputs = program_->header().n_outputs;
  limits.has_states = states_.n_slots() > 0;
  return arena_.allocate(*device_, limits);
}

Status CudaExecutable::memory(bp_memory_info& out) {
  BP_ASSIGN(const uint64_t free_bytes, device_->free_bytes());
  out.block_size = kv_.block_size();
  out.weights_bytes = plan_.weights_bytes();
  out.workspace_bytes = workspace_.size() + gathered_.size() + sampler_.n_device_bytes() +
                        arena_.n_bytes() + transfer_.n_bytes() +
                        (library_ == nullptr ? 0 : library_->n_bytes());
  out.available_bytes =
      static_cast<uint64_t>(static_cast<double>(free_bytes) * settings_.memory_share);
  out.n_groups = program_->header().n_kv_groups;
  out.max_in_flight = 1;
  for (uint32_t g = 0; g < out.n_groups; ++g) out.block_bytes[g] = kv_.block_bytes(g);
  if (states_.n_slots() > 0) out.block_bytes[out.n_groups++] = states_.entry_bytes();
  out.k_dtype = kv_.k_dtype();
  out.v_dtype = kv_.v_dtype();
  return {};
}

Status CudaExecutable::kv_allocate(std::span<const uint32_t> n_blocks) {
  const bool has_states = states_.n_slots() > 0 && !n_blocks.empty() && !kv_.is_allocated();
  const uint32_t n_entries = has_states ? n_blocks.back() : 0;
  if (has_states) n_blocks = n_blocks.first(n_blocks.size() - 1);
  BP_TRY(kv_.allocate(*device_, *stream_, n_blocks));
  BP_TRY(states_.allocate(*device_, n_entries));
  return stream_->synchronize();
}

Status CudaExecutable::warm_up(const Progress& progress) {
  if (progress.report(0, 1)) return cancelled("warming up was stopped");
  if (workspace_.size() > 0) BP_TRY(stream_->fill(workspace_.data(), 0, workspace_.size()));
  if (kv_.is_allocated() && settings_.uses_graphs && !settings_.waits_after_each_op) {
    const StepShape most = largest_shape(options_);
    BP_TRY(graphs_.capture(plan_, context_of(most), most, options_.max_sequences, progress));
  }
  BP_TRY(stream_->synchronize());
  if (progress.report(1, 1)) return cancelled("warming up was stopped");
  return {};
}

Status CudaExecutable::validate(const bp_batch& batch) const {
  if (!kv_.is_allocated()) return invalid_argument("kv_allocate has not been called");
  if (in_flight_.ticket != 0) return invalid_argument("the step before has not been collected");
  BatchLimits limits = BatchLimits::of(options_);
  limits.block_size = kv_.block_size();
  limits.n_outputs = static_cast<uint32_t>(plan_.outputs.size());
  limits.n_blocks = kv_.n_blocks();
  limits.n_state_slots = states_.n_slots();
  limits.n_state_entries = states_.n_entries();
  limits.max_candidates = kMaxCandidates;
  limits.output_widths = output_widths_;
  return validate_batch(batch, limits);
}

Status CudaExecutable::submit(const bp_batch& batch, uint64_t& ticket) {
  BP_TRY(validate(batch));
  const bool any_running = begin_sequences(batch);
  for (uint32_t i = 0; i < batch.n_block_ops; ++i) {
    const bp_block_op& op = batch.block_ops[i];
    BP_TRY(op.space == BP_BLOCK_OF_STATE ? states_.apply(*stream_, op) : kv_.apply(*stream_, op));
  }
  if (any_running) BP_TRY(compute(batch));
  BP_TRY(stream_->record(*is_done_));
  in_flight_ = {++last_ticket_, batch, any_running};
  ticket = last_ticket_;
  return {};
}

Status CudaExecutable::collect(uint64_t ticket) {
  if (ticket == 0 || ticket != in_flight_.ticket) {
    return invalid_argument("no step has the ticket " + std::to_string(ticket));
  }
  const InFlight step = std::exchange(in_flight_, {});
  BP_TRY(is_done_->synchronize());
  if (!step.is_computed) return {};
  poll_stop(step.batch);
  hand_over(step.batch);
  return {};
}

Status CudaExecutable::prepare_transfer(bp_kv_image_info& out) {
  if (kv_.is_allocated()) return invalid_argument("transfers are prepared before kv_allocate");
  BP_TRY(transfer_.allocate(*device_));
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

// Whether some sequence runs: its ids and positions are known, and nobody has stopped it.
bool CudaExecutable::begin_sequences(const bp_batch& batch) {
  uint32_t n_ids = ~0u, n_positions = ~0u;
  for (const uint32_t n : plan_.vocabularies) n_ids = std::min(n_ids, n);
  for (const uint32_t n : plan_.positions) n_positions = std::min(n_positions, n);
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    batch.seq_status[s] = BP_SEQ_OK;
    for (uint32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) {
      sequence_of_[t] = s;
      const bool is_known = static_cast<uint32_t>(batch.tokens[t]) < n_ids &&
                            static_cast<uint32_t>(batch.positions[t]) < n_positions;
      if (!is_known) batch.seq_status[s] = BP_SEQ_FAILED;
    }
  }
  poll_stop(batch);
  bool any = false;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    is_running_[s] = batch.seq_status[s] == BP_SEQ_OK ? 1 : 0;
    any |= is_running_[s] != 0 && batch.query_start[s] < batch.query_start[s + 1];
  }
  return any;
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

Status CudaExecutable::compute(const bp_batch& batch) {
  const StepGraphs::Match match = graphs_.find(shape_of(batch));
  BP_TRY(arena_.send(*stream_, batch, match.shape, {is_running_.data(), batch.n_seqs}));
  const StageContext context = context_of(match.shape);
  BP_TRY(match.graph != nullptr ? stream_->run(*match.graph) : run_stages(context));
  return bring_outputs(batch, context);
}

Status CudaExecutable::run_stages(const StageContext& context) {
  if (!settings_.waits_after_each_op) return plan_.enqueue(context);
  for (const Stage& stage : plan_.stages) {
    BP_TRY(stage.enqueue(context).with_context(stage.op));
    BP_TRY(stream_->synchronize().with_context(stage.op));
  }
  return {};
}

// Rows of all outputs one after another into pinned memory, but for those that stay here.
Status CudaExecutable::bring_outputs(const bp_batch& batch, const StageContext& context) {
  uint8_t* to = outputs_.data();
  uint8_t* chosen = gathered_.data();
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    const uint32_t buffer = plan_.outputs[output.output];
    const Buffer& b = plan_.buffers[buffer];
    const Rows rows = context.rows(buffer);
    const float* from = rows.data;
    if (b.rows == BP_ROWS_TOKENS && output.n_rows > 0) {
      ColumnsParams p;
      p.x = rows;
      p.y = {reinterpret_cast<float*>(chosen), b.stride()};
      p.step = context.step;
      p.output = output.output;
      p.n_rows = output.n_rows;
      p.n = b.width;
      BP_TRY(stream_->launch(columns_kernel(), columns_geometry(p), p));
      from = p.y.data;
      chosen += size_t{output.n_rows} * b.stride() * sizeof(float);
    }
    BP_TRY(bring_rows(output, from, to));
  }
  return sampler_.bring(*stream_, batch);
}

// Neighbours at once.
Status CudaExecutable::bring_rows(const bp_output& output, const float* from, uint8_t*& to) {
  const size_t stride = plan_.buffers[plan_.outputs[output.output]].stride();
  for (uint32_t begin = 0, end = 0; begin < output.n_rows; begin = end) {
    const bool is_wanted = gives_logits(output, begin);
    for (end = begin + 1; end < output.n_rows && gives_logits(output, end) == is_wanted;) ++end;
    if (!is_wanted) continue;
    const size_t n_bytes = (end - begin) * stride * sizeof(float);
    BP_TRY(stream_->copy_to_host(to, from + begin * stride, n_bytes));
    to += n_bytes;
  }
  return {};
}

void CudaExecutable::hand_over(const bp_batch& batch) const {
  const uint8_t* from = outputs_.data();
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    const Buffer& b = plan_.buffers[plan_.outputs[output.output]];
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      if (!gives_logits(output, r)) continue;
      const uint8_t* const row = std::exchange(from, from + b.stride() * sizeof(float));
      if (batch.seq_status[sequence_of_[output.rows[r]]] != BP_SEQ_OK) continue;
      std::memcpy(static_cast<uint8_t*>(output.data) + r * output.row_stride_bytes, row,
                  b.width * sizeof(float));
    }
  }
  sampler_.hand_over(batch, sequence_of_);
}

}  // namespace bp::cuda

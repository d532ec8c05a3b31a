#include "backplane/reference/executable.hpp"

#include <algorithm>
#include <cstring>

#include "available_memory.hpp"
#include "backplane/row_sampling.hpp"
#include "backplane/validate_batch.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

namespace {

constexpr uint32_t kDefaultBlockSize = 16;
constexpr std::string_view kOverridable[] = {BP_OP_LINEAR, BP_OP_NORM, BP_OP_ACTIVATE};

uint64_t max_v_head_dim(const ProgramView& program) {
  uint64_t width = 0;
  for (const bp_kv_slot& slot : program.kv_slots()) {
    width = std::max<uint64_t>(width, slot.v_head_dim);
  }
  return width;
}

// For each value the op after which nobody reads it; an output is read after the last op.
std::vector<uint32_t> last_uses(const ProgramView& program) {
  std::vector<uint32_t> last(program.values().size(), 0);
  for (uint32_t i = 0; i < program.ops().size(); ++i) {
    for (const auto slots : {input_slots(program.ops()[i]), output_slots(program.ops()[i])}) {
      for (const uint32_t value : slots) {
        if (value != BP_NONE) last[value] = i;
      }
    }
  }
  for (const uint32_t value : program.outputs()) {
    last[value] = static_cast<uint32_t>(program.ops().size());
  }
  return last;
}

bp_dtype kv_dtype(bp_dtype asked) {
  return asked == BP_DTYPE_NONE ? BP_DTYPE_F32 : asked;
}

}  // namespace

ReferenceExecutable::ReferenceExecutable(const Host& host, const bp_program& program,
                                         const bp_compile_options& options)
    : program_(program),
      options_(options),
      weights_(program_),
      workers_(host, options.n_threads,
               std::max<uint64_t>(weights_.max_width(), options.max_context),
               max_v_head_dim(program_)),
      kv_(program_.kv_slots(), program_.header().n_kv_groups,
          options.block_size == 0 ? kDefaultBlockSize : options.block_size,
          kv_dtype(options.k_dtype), kv_dtype(options.v_dtype)),
      states_(program_.state_slots()),
      images_(program_, kv_.block_size(), image_dtype(kv_dtype(options.k_dtype)),
              image_dtype(kv_dtype(options.v_dtype))),
      last_use_(last_uses(program_)),
      values_(program_.values().size()),
      buffers_(program_.values().size()) {
  options_.progress = nullptr;
  for (const uint32_t value : program_.outputs()) {
    output_widths_.push_back(program_.values()[value].width);
  }
}

Status ReferenceExecutable::bind_kernels(const bp_compile_options& options) {
  BP_ASSIGN(const Overrides overrides, Overrides::create(options, kOverridable));
  return kernels_.bind(program_, overrides);
}

Status ReferenceExecutable::prepare(const Settings& settings, const Progress& progress) {
  return weights_.decode(program_, settings.cache_weights, progress);
}

Status ReferenceExecutable::memory(bp_memory_info& out) {
  out.block_size = kv_.block_size();
  out.weights_bytes = weights_.decoded_bytes();
  out.workspace_bytes = workspace_bytes();
  out.available_bytes = available_memory_bytes();
  out.n_groups = program_.n_groups();
  out.max_in_flight = 1;
  const uint32_t n_kv_groups = program_.header().n_kv_groups;
  for (uint32_t g = 0; g < n_kv_groups; ++g) out.block_bytes[g] = kv_.block_bytes(g);
  if (out.n_groups > n_kv_groups) out.block_bytes[n_kv_groups] = states_.entry_bytes();
  out.k_dtype = kv_dtype(options_.k_dtype);
  out.v_dtype = kv_dtype(options_.v_dtype);
  return {};
}

Status ReferenceExecutable::kv_allocate(std::span<const uint32_t> n_blocks) {
  if (n_blocks.size() != program_.n_groups()) {
    return invalid_argument("block counts of " + std::to_string(n_blocks.size()) +
                            " groups were given, the program has " +
                            std::to_string(program_.n_groups()));
  }
  const uint32_t n_kv_groups = program_.header().n_kv_groups;
  BP_TRY(kv_.allocate(n_blocks.first(n_kv_groups)));
  if (n_blocks.size() > n_kv_groups) BP_TRY(states_.allocate(n_blocks.back()));
  n_ids_.assign(n_blocks.begin(), n_blocks.end());
  return {};
}

Status ReferenceExecutable::validate(const bp_batch& batch) const {
  BatchLimits limits = BatchLimits::of(options_);
  limits.block_size = kv_.block_size();
  limits.n_outputs = program_.header().n_outputs;
  limits.n_blocks = kv_.n_blocks();
  limits.n_state_slots = states_.n_slots();
  limits.n_state_entries = states_.n_entries();
  limits.max_candidates = kMaxCandidates;
  limits.output_widths = output_widths_;
  limits.takes_chosen = true;
  limits.chosen_rows = chosen_rows_;
  if (limits.n_blocks.size() != program_.header().n_kv_groups) {
    return invalid_argument("kv_allocate comes before the first step");
  }
  return validate_batch(batch, limits);
}

Status ReferenceExecutable::submit(const bp_batch& given, uint64_t& ticket) {
  BP_TRY(validate(given));
  BP_TRY(in_flight_.expect_none());
  bp_batch batch = given;
  take_chosen(batch);
  for (uint32_t i = 0; i < batch.n_block_ops; ++i) apply(batch.block_ops[i]);
  Step step(batch, program_, kv_, states_, workers_);
  BP_TRY(run_ops(step));
  write_outputs(step);
  ticket = in_flight_.begin();
  return {};
}

// An id that no token came of stays below 0 and fails its sequence.
void ReferenceExecutable::take_chosen(bp_batch& batch) {
  const std::span<const int32_t> given(batch.tokens, batch.n_tokens);
  if (std::ranges::none_of(given, [](int32_t id) { return id < 0; })) return;
  tokens_.assign(given.begin(), given.end());
  for (int32_t& id : tokens_) {
    if (id < 0) id = chosen_[static_cast<size_t>(-1 - id)];
  }
  batch.tokens = tokens_.data();
}

Status ReferenceExecutable::run_ops(Step& step) {
  close_all();
  for (uint32_t i = 0; i < program_.ops().size(); ++i) {
    step.poll_stop();
    if (!step.any_running()) break;
    const bp_op& op = program_.ops()[i];
    open_outputs(op, step);
    const OpCall call(op, program_, weights_, kernels_, values_, step);
    const Status status = kernels_.contains(op) ? interpret(call) : run_op(call);
    if (!status.ok()) return status.with_context(describe(op));
    BP_TRY(kernels_.take_failure());
    close_dead_values(i);
  }
  step.poll_stop();
  return {};
}

void ReferenceExecutable::apply(const bp_block_op& op) {
  if (op.space == BP_BLOCK_OF_STATE) {
    states_.apply(op);
  } else {
    kv_.apply(op);
  }
}

Status ReferenceExecutable::collect(uint64_t ticket) {
  return in_flight_.collect(ticket);
}

Status ReferenceExecutable::run_op(const OpCall& call) {
  return interpret(call);
}

Status ReferenceExecutable::interpret(const OpCall& call) {
  const RunOp run = find_op(call.kind());
  return run == nullptr ? unsupported("unknown kind of op") : run(call);
}

uint64_t ReferenceExecutable::n_rows_of(const bp_value& value, const Step& step) const {
  if (value.rows == BP_ROWS_TOKENS) return step.batch().n_tokens;
  return step.rows_of_output(value.output).size();
}

std::vector<float> ReferenceExecutable::take_buffer() {
  if (free_buffers_.empty()) return {};
  std::vector<float> buffer = std::move(free_buffers_.back());
  free_buffers_.pop_back();
  return buffer;
}

void ReferenceExecutable::open_outputs(const bp_op& op, const Step& step) {
  for (const uint32_t index : output_slots(op)) {
    if (index == BP_NONE) continue;
    const bp_value& value = program_.values()[index];
    const uint64_t n_rows = n_rows_of(value, step);
    buffers_[index] = take_buffer();
    buffers_[index].resize(n_rows * value.width);
    values_[index] = {buffers_[index].data(), n_rows, value.width};
  }
}

void ReferenceExecutable::close_dead_values(uint32_t op) {
  for (const auto slots : {input_slots(program_.ops()[op]), output_slots(program_.ops()[op])}) {
    for (const uint32_t index : slots) {
      if (index == BP_NONE || last_use_[index] != op || values_[index].data == nullptr) continue;
      free_buffers_.push_back(std::move(buffers_[index]));
      values_[index] = {};
    }
  }
}

void ReferenceExecutable::close_all() {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (buffers_[i].capacity() > 0) free_buffers_.push_back(std::move(buffers_[i]));
    buffers_[i].clear();
    values_[i] = {};
  }
}

bp_row_result ReferenceExecutable::sample(std::span<const float> row,
                                          const bp_row_request& request) {
  return sample_row(row, request);
}

void ReferenceExecutable::write_outputs(const Step& step) {
  std::vector<uint8_t> rows;
  list_chosen_rows(step.batch(), rows);
  std::vector<int32_t> chosen;
  chosen.reserve(rows.size());
  for (uint32_t i = 0; i < step.batch().n_outputs; ++i) {
    write_output(copy_growable(step.batch().outputs[i]), step, chosen);
  }
  chosen_rows_.swap(rows);
  chosen_.swap(chosen);
}

void ReferenceExecutable::write_output(const bp_output& output, const Step& step,
                                       std::vector<int32_t>& chosen) {
  const uint32_t index = program_.outputs()[output.output];
  const Matrix& value = values_[index];
  const bool all_tokens = program_.values()[index].rows == BP_ROWS_TOKENS;
  const bool is_sampled = (output.required & BP_OUTPUT_SAMPLING) != 0;
  const bp_sampling sampling = is_sampled ? copy_growable(output.sampling) : bp_sampling{};
  for (uint32_t r = 0; r < output.n_rows; ++r) {
    if (is_sampled) chosen.push_back(-1);
    if (!step.is_running(step.sequence_of(output.rows[r]))) continue;
    const float* row = value.row(all_tokens ? output.rows[r] : r);
    if (is_sampled) {
      const bp_row_result result = sample({row, value.width}, sampling.requests[r]);
      chosen.back() = result.flags == 0 ? result.token : -1;
      sampling.results[r] = result;
    }
    if (is_sampled && (sampling.requests[r].flags & BP_ROW_LOGITS) == 0) continue;
    std::memcpy(static_cast<char*>(output.data) + r * output.row_stride_bytes, row,
                value.width * sizeof(float));
  }
}

// The most that live values of the largest step take together.
uint64_t ReferenceExecutable::workspace_bytes() const {
  const auto bytes_of = [&](uint32_t index) {
    const bp_value& value = program_.values()[index];
    // An output has each of a step's tokens once at most.
    const uint64_t n_rows = value.rows == BP_ROWS_TOKENS
                                ? options_.max_step_tokens
                                : std::min(options_.max_output_rows, options_.max_step_tokens);
    return n_rows * value.width * sizeof(float);
  };
  uint64_t live = 0, most = 0;
  for (uint32_t i = 0; i < program_.ops().size(); ++i) {
    for (const uint32_t value : output_slots(program_.ops()[i])) {
      if (value != BP_NONE) live += bytes_of(value);
    }
    most = std::max(most, live);
    for (uint32_t value = 0; value < last_use_.size(); ++value) {
      if (last_use_[value] == i && program_.values()[value].dtype == BP_DTYPE_F32) {
        live -= std::min(live, bytes_of(value));
      }
    }
  }
  return most + workers_.scratch_bytes();
}

}  // namespace bp::reference

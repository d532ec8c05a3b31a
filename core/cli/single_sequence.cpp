#include "core/cli/single_sequence.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backplane/plugin.hpp"
#include "core/cli/progress.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::cli {

Result<SingleSequence> SingleSequence::create(const ModelOptions& options, uint32_t context,
                                              uint32_t max_rows, const Change& change) {
  BP_ASSIGN(auto runtime, runtime::default_runtime(options.n_threads));
  BP_ASSIGN(config::Model config, configured(options, runtime->catalog()));
  config.context = context;
  runtime::CompileLimits limits;
  limits.context = context;
  limits.max_step_tokens = kMaxStepTokens;
  limits.max_sequences = 1;
  const ProgressBar progress("loading");
  BP_ASSIGN(model::LoadedModel model, runtime::load_model(*runtime, config, progress.c()));
  if (change) {
    BP_ASSIGN(limits.max_step_tokens, change(model));
  }
  limits.max_output_rows = std::min(max_rows, limits.max_step_tokens) * model.program.c().n_outputs;
  BP_ASSIGN(runtime::CompiledModel compiled,
            runtime::compile_model(*runtime, config, std::move(model), limits, progress.c()));
  BP_ASSIGN(const runtime::KvPlan plan, runtime::plan_kv(compiled.memory, compiled.state_bytes,
                                                         compiled.limits, context, std::nullopt));
  const uint32_t n_blocks = (context - 1) / compiled.memory.block_size + 2;  // and the null block
  BP_TRY(runtime::allocate_kv(compiled, std::min(plan.n_blocks, n_blocks), plan.n_state_entries));
  BP_TRY(compiled.executable.warm_up(progress.c()));
  return SingleSequence(std::move(runtime), std::move(compiled), context);
}

SingleSequence::SingleSequence(std::unique_ptr<runtime::Runtime> runtime,
                               runtime::CompiledModel compiled, uint32_t context)
    : runtime_(std::move(runtime)), compiled_(std::move(compiled)) {
  const uint32_t n_blocks = (context - 1) / compiled_.memory.block_size + 1;
  blocks_.resize(n_blocks);
  std::iota(blocks_.begin(), blocks_.end(), 1);
  tables_.assign(compiled_.memory.n_groups, bp_block_table{blocks_.data(), n_blocks, 0});
}

Status SingleSequence::check(std::span<const int32_t> tokens) const {
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= n_vocab()) {
      return invalid_argument(
          fmt::format("token id {} is outside the vocabulary of {}", token, n_vocab()));
    }
  }
  return {};
}

// The rows wanted fall into the last step.
Status SingleSequence::append(std::span<const int32_t> tokens, uint32_t position, uint32_t n_rows,
                              float* logits) {
  const size_t most = max_step_tokens();
  while (!tokens.empty()) {
    const size_t rest = tokens.size() > n_rows ? tokens.size() - n_rows : tokens.size();
    const size_t n = tokens.size() <= most ? tokens.size() : std::min(most, rest);
    const bool is_last = n == tokens.size();
    BP_TRY(step_logits(tokens.first(n), position, is_last ? n_rows : 0, logits));
    tokens = tokens.subspan(n);
    position += static_cast<uint32_t>(n);
  }
  return {};
}

namespace {

// The last n_rows of n_tokens of a step.
std::vector<uint32_t> last_rows(uint32_t n_rows, size_t n_tokens) {
  std::vector<uint32_t> rows(n_rows);
  std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(n_tokens) - n_rows);
  return rows;
}

bp_output output_to(const std::vector<uint32_t>& rows, float* data, uint64_t width) {
  auto output = make_growable<bp_output>();
  output.n_rows = static_cast<uint32_t>(rows.size());
  output.dtype = BP_DTYPE_F32;
  output.rows = rows.data();
  output.data = data;
  output.row_stride_bytes = width * sizeof(float);
  return output;
}

}  // namespace

Status SingleSequence::step_logits(std::span<const int32_t> tokens, uint32_t position,
                                   uint32_t n_rows, float* logits) {
  const auto rows = last_rows(n_rows, tokens.size());
  const bp_output output = output_to(rows, logits, n_vocab());
  const bp_output* outputs[] = {&output};
  return step(tokens, position, std::span(outputs).first(n_rows > 0 ? 1 : 0));
}

Status SingleSequence::append_all(std::span<const int32_t> tokens, uint32_t position,
                                  std::vector<std::vector<float>>& outputs) {
  const bp_program& program = compiled_.parts->program.c();
  const auto rows = last_rows(static_cast<uint32_t>(tokens.size()), tokens.size());
  outputs.resize(program.n_outputs);
  std::vector<bp_output> targets;
  std::vector<const bp_output*> pointers;
  for (uint32_t i = 0; i < program.n_outputs; ++i) {
    const uint64_t width = program.values[program.outputs[i]].width;
    outputs[i].resize(tokens.size() * width);
    targets.push_back(output_to(rows, outputs[i].data(), width));
    targets.back().output = i;
  }
  for (const bp_output& target : targets) pointers.push_back(&target);
  return step(tokens, position, pointers);
}

Status SingleSequence::step(std::span<const int32_t> tokens, uint32_t position,
                            std::span<const bp_output* const> outputs) {
  const auto n = static_cast<uint32_t>(tokens.size());
  std::vector<int32_t> positions(n);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(position));
  const uint32_t query_start[] = {0, n};
  const uint32_t context_len = position + n;
  const int32_t state_in = position == 0 ? 0 : kStateEntry, state_out = kStateEntry;
  int32_t seq_status = BP_SEQ_OK;
  auto batch = make_growable<bp_batch>();
  batch.n_tokens = n;
  batch.n_seqs = 1;
  batch.n_groups = static_cast<uint32_t>(tables_.size());
  batch.n_outputs = static_cast<uint32_t>(outputs.size());
  batch.tokens = tokens.data();
  batch.positions = positions.data();
  batch.query_start = query_start;
  batch.context_len = &context_len;
  batch.block_tables = tables_.data();
  const bool has_states = compiled_.state_bytes > 0;
  batch.state_in = has_states ? &state_in : nullptr;
  batch.state_out = has_states ? &state_out : nullptr;
  batch.outputs = outputs.data();
  batch.seq_status = &seq_status;
  uint64_t ticket = 0;
  BP_TRY(compiled_.executable.submit(batch, ticket));
  BP_TRY(compiled_.executable.collect(ticket));
  if (seq_status != BP_SEQ_OK) return internal_error("the backend failed on these tokens");
  return {};
}

}  // namespace bp::cli

#include "backends/cuda/step_arena.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cuda/sampling.hpp"
#include "backplane/plugin.hpp"

namespace bp::cuda {

namespace {

constexpr size_t kAlignment = 16;

size_t aligned(size_t n_bytes) {
  return (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

uint32_t blocks_of(uint32_t context_len, uint32_t block_size) {
  return divide_up(context_len, block_size);
}

size_t bytes_of(const ArenaLimits& limits) {
  const size_t n_seqs = limits.max_sequences + size_t{2};
  size_t n = aligned(sizeof(StepView));
  n += 3 * aligned(limits.most.n_tokens * sizeof(uint32_t));
  n += (limits.has_states ? 5 : 3) * aligned(n_seqs * sizeof(uint32_t));
  const size_t table = n_seqs * blocks_of(limits.max_context, limits.block_size);
  n += limits.n_groups * aligned(table * sizeof(int32_t));
  for (uint32_t o = 0; o < limits.n_outputs; ++o) {
    n += aligned(limits.most.n_output_rows[o] * sizeof(uint32_t));
  }
  n += aligned(limits.most.n_samples * sizeof(SampleRequest));
  return n;
}

}  // namespace

Status StepArena::allocate(Device& device, const ArenaLimits& limits) {
  limits_ = limits;
  BP_ASSIGN(device_, device.allocate(MemoryKind::kDevice, bytes_of(limits), "the batch of a step"));
  return {};
}

Result<Memory> StepArena::make_staging(Device& device) const {
  return device.allocate(MemoryKind::kPinned, device_.size(), "the batch of a step");
}

template <class T>
StepArena::Array<T> StepArena::take(size_t n) {
  const size_t at = n_used_;
  n_used_ += aligned(n * sizeof(T));
  return {reinterpret_cast<T*>(host_ + at), reinterpret_cast<const T*>(device_.data() + at)};
}

// Behind the view, where send packs them first.
int32_t* StepArena::tokens() const {
  return reinterpret_cast<int32_t*>(device_.data() + aligned(sizeof(StepView)));
}

Status StepArena::send(Stream& stream, const Memory& staging, const bp_batch& batch,
                       const StepShape& shape, std::span<const uint8_t> is_running) {
  host_ = staging.data();
  n_used_ = 0;
  StepView& view = *take<StepView>(1).host;
  view = {};
  view.n_tokens = batch.n_tokens;
  view.n_seqs = batch.n_seqs;
  pack_tokens(batch, shape.n_tokens, view);
  pack_sequences(batch, is_running, view);
  pack_tables(batch, view);
  pack_outputs(batch, shape, view);
  return stream.copy_to_device(device_.data(), host_, n_used_);
}

void StepArena::pack_tokens(const bp_batch& batch, uint32_t n_tokens, StepView& view) {
  const auto tokens = take<int32_t>(n_tokens), positions = take<int32_t>(n_tokens);
  const auto sequence_of = take<uint32_t>(n_tokens);
  std::copy_n(batch.tokens, batch.n_tokens, tokens.host);
  std::copy_n(batch.positions, batch.n_tokens, positions.host);
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    std::fill(sequence_of.host + batch.query_start[s], sequence_of.host + batch.query_start[s + 1],
              s);
  }
  std::fill(tokens.host + batch.n_tokens, tokens.host + n_tokens, 0);
  std::fill(positions.host + batch.n_tokens, positions.host + n_tokens, 0);
  std::fill(sequence_of.host + batch.n_tokens, sequence_of.host + n_tokens, batch.n_seqs);
  view.tokens = tokens.device;
  view.positions = positions.device;
  view.sequence_of = sequence_of.device;
}

void StepArena::pack_sequences(const bp_batch& batch, std::span<const uint8_t> is_running,
                               StepView& view) {
  const uint32_t n = batch.n_seqs;
  const auto query_start = take<uint32_t>(n + 2), context_len = take<uint32_t>(n + 1);
  const auto running = take<uint32_t>(n + 1);
  std::copy_n(batch.query_start, n + 1, query_start.host);
  std::copy_n(batch.context_len, n, context_len.host);
  std::ranges::copy(is_running, running.host);
  query_start.host[n + 1] = batch.n_tokens;
  context_len.host[n] = 0;
  running.host[n] = 0;
  view.query_start = query_start.device;
  view.context_len = context_len.device;
  view.is_running = running.device;
  if (!limits_.has_states) return;
  const auto state_in = take<int32_t>(n), state_out = take<int32_t>(n);
  std::copy_n(batch.state_in, n, state_in.host);
  std::copy_n(batch.state_out, n, state_out.host);
  view.state_in = state_in.device;
  view.state_out = state_out.device;
}

// Only as many entries of each table as the longest sequence has.
void StepArena::pack_tables(const bp_batch& batch, StepView& view) {
  uint32_t longest = 0;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) longest = std::max(longest, batch.context_len[s]);
  const uint32_t stride = blocks_of(longest, limits_.block_size);
  for (uint32_t g = 0; g < limits_.n_groups; ++g) {
    const auto table = take<int32_t>(size_t{batch.n_seqs + 1} * stride);
    for (uint32_t s = 0; s < batch.n_seqs; ++s) {
      const uint32_t n = blocks_of(batch.context_len[s], limits_.block_size);
      int32_t* const row = table.host + size_t{s} * stride;
      std::copy_n(batch.block_tables[g].blocks + uint64_t{s} * batch.block_tables[g].stride, n,
                  row);
      std::fill(row + n, row + stride, 0);
    }
    std::fill_n(table.host + size_t{batch.n_seqs} * stride, stride, 0);
    view.tables[g] = {table.device, stride};
  }
}

// Outputs that nobody asks for have rows too where the step is padded.
void StepArena::pack_outputs(const bp_batch& batch, const StepShape& shape, StepView& view) {
  std::array<Array<uint32_t>, kMaxOutputs> rows{};
  for (uint32_t o = 0; o < limits_.n_outputs; ++o) {
    rows[o] = take<uint32_t>(shape.n_output_rows[o]);
    std::fill_n(rows[o].host, shape.n_output_rows[o], 0);
    view.output_rows[o] = rows[o].device;
  }
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    std::copy_n(output.rows, output.n_rows, rows[output.output].host);
  }
  view.n_samples = n_samples_of(batch);
  const auto samples = take<SampleRequest>(view.n_samples);
  pack_samples(batch, samples.host);
  view.samples = samples.device;
}

}  // namespace bp::cuda

#include "core/cli/bench_session.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "backplane/plugin.hpp"

namespace bp::cli {

namespace {

uint32_t blocks_of(uint32_t n_tokens, uint32_t block_size) {
  return (n_tokens + block_size - 1) / block_size;
}

}  // namespace

uint64_t BenchSession::blocks_needed(const bp_memory_info& memory, uint32_t n_sequences,
                                     uint32_t context) {
  return 1 + uint64_t{n_sequences} * blocks_of(context, memory.block_size);
}

BenchSession::BenchSession(const runtime::CompiledModel& compiled, uint32_t n_blocks)
    : compiled_(compiled), n_blocks_(n_blocks) {}

void BenchSession::arrange(uint32_t n_sequences, uint32_t context) {
  n_sequences_ = n_sequences;
  stride_ = std::min(blocks_of(context, compiled_.memory.block_size), n_blocks_ - 1);
  block_table_.resize(size_t{n_sequences} * stride_);
  std::iota(block_table_.begin(), block_table_.end(), 1);
  logits_.resize(size_t{n_sequences} * compiled_.parts->model.n_vocab);
}

Status BenchSession::clear() {
  std::vector<bp_block_op> clears;
  for (uint32_t group = 0; group < compiled_.memory.n_groups; ++group) {
    for (uint32_t block = 1; block < n_blocks_; ++block) {
      clears.push_back(
          {BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, group, 0, static_cast<int32_t>(block)});
    }
  }
  const uint32_t query_start[] = {0, 1};
  return step(query_start, 0, false, clears);
}

Status BenchSession::prefill(uint32_t first, uint32_t n) {
  for (uint32_t done = 0; done < n; done += kChunk) {
    const uint32_t chunk = std::min(kChunk, n - done);
    const uint32_t query_start[] = {0, chunk};
    BP_TRY(step(query_start, first + done, done + chunk == n, {}));
  }
  return {};
}

Status BenchSession::decode(uint32_t position, bool fork) {
  std::vector<uint32_t> query_start(n_sequences_ + 1);
  std::iota(query_start.begin(), query_start.end(), 0);
  std::vector<bp_block_op> block_ops;
  if (fork) block_ops = copies_of_context(position);
  return step(query_start, position, true, block_ops);
}

std::vector<bp_block_op> BenchSession::copies_of_context(uint32_t n_tokens) const {
  std::vector<bp_block_op> copies;
  const uint32_t n_blocks = blocks_of(n_tokens, compiled_.memory.block_size);
  for (uint32_t group = 0; group < compiled_.memory.n_groups; ++group) {
    for (uint32_t s = 1; s < n_sequences_; ++s) {
      for (uint32_t i = 0; i < n_blocks; ++i) {
        copies.push_back({BP_BLOCK_COPY, BP_BLOCK_OF_GROUP, group, block_table_[i],
                          block_table_[size_t{s} * stride_ + i]});
      }
    }
  }
  const uint32_t n_state_slots = compiled_.parts->program.c().n_state_slots;
  for (uint32_t slot = 0; slot < n_state_slots; ++slot) {
    for (uint32_t s = 1; s < n_sequences_; ++s) {
      copies.push_back({BP_BLOCK_COPY, BP_BLOCK_OF_STATE, slot, 1, static_cast<int32_t>(1 + s)});
    }
  }
  return copies;
}

// Each sequence of the step begins at `position`.
Status BenchSession::step(std::span<const uint32_t> query_start, uint32_t position, bool logits,
                          std::span<const bp_block_op> block_ops) {
  const auto n_seqs = static_cast<uint32_t>(query_start.size() - 1);
  const uint32_t n_tokens = query_start[n_seqs];
  const uint32_t n_vocab = compiled_.parts->model.n_vocab;
  std::vector<int32_t> tokens(n_tokens);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random_() % n_vocab);
  std::vector<int32_t> positions(n_tokens);
  std::vector<uint32_t> context_len(n_seqs), last_rows(n_seqs);
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const uint32_t begin = query_start[s], end = query_start[s + 1];
    std::iota(positions.begin() + begin, positions.begin() + end, static_cast<int32_t>(position));
    context_len[s] = position + end - begin;
    last_rows[s] = end - 1;
  }
  std::vector<int32_t> state_out(n_seqs), state_in(n_seqs, 0);
  std::iota(state_out.begin(), state_out.end(), 1);
  if (position > 0) state_in = state_out;
  const std::vector<bp_block_table> tables(compiled_.memory.n_groups,
                                           bp_block_table{block_table_.data(), stride_, 0});
  std::vector<int32_t> seq_status(n_seqs, BP_SEQ_OK);
  auto output = make_growable<bp_output>();
  output.n_rows = n_seqs;
  output.dtype = BP_DTYPE_F32;
  output.rows = last_rows.data();
  output.data = logits_.data();
  output.row_stride_bytes = n_vocab * sizeof(float);
  const bp_output* outputs[] = {&output};
  auto batch = make_growable<bp_batch>();
  batch.n_tokens = n_tokens;
  batch.n_seqs = n_seqs;
  batch.n_block_ops = static_cast<uint32_t>(block_ops.size());
  batch.n_groups = static_cast<uint32_t>(tables.size());
  batch.n_outputs = logits ? 1 : 0;
  batch.block_ops = block_ops.data();
  batch.tokens = tokens.data();
  batch.positions = positions.data();
  batch.query_start = query_start.data();
  batch.context_len = context_len.data();
  batch.block_tables = tables.data();
  const bool has_states = compiled_.parts->program.c().n_state_slots > 0;
  batch.state_in = has_states ? state_in.data() : nullptr;
  batch.state_out = has_states ? state_out.data() : nullptr;
  batch.outputs = outputs;
  batch.seq_status = seq_status.data();
  uint64_t ticket = 0;
  BP_TRY(compiled_.executable.submit(batch, ticket));
  BP_TRY(compiled_.executable.collect(ticket));
  for (const int32_t status : seq_status) {
    if (status != BP_SEQ_OK) return internal_error("the backend failed on a sequence of the bench");
  }
  return {};
}

}  // namespace bp::cli

#include "core/engine/batch_builder.hpp"

#include <algorithm>

#include "backplane/plugin.hpp"
#include "core/engine/device_rows.hpp"

namespace bp::engine {

void Batch::reserve_rows(size_t n) {
  if (n <= row_capacity_) return;
  row_capacity_ = std::max(n, 2 * row_capacity_);
  logits_ = std::make_unique_for_overwrite<float[]>(row_capacity_ * n_vocab);
}

namespace {

void clear(Batch& b, size_t n_seqs) {
  b.tokens.clear();
  b.positions.clear();
  b.rows.clear();
  b.row_requests.clear();
  b.context_len.clear();
  b.state_in.clear();
  b.state_out.clear();
  b.requests.clear();
  b.query_start.assign(1, 0);
  b.first_row.assign(1, 0);
  b.stop_seq.assign(n_seqs, 0);
  b.seq_status.assign(n_seqs, BP_SEQ_OK);
}

void add_sequence(const Planned& planned, Batch& b) {
  const Sequence& s = *planned.sequence;
  const uint32_t end = planned.end();
  const bool prompt_rows = s.prompt_logprobs_missing();
  for (uint32_t p = planned.first; p < end; ++p) {
    if ((prompt_rows || p + 1 == end) && s.wants_row(p)) {
      b.rows.push_back(static_cast<uint32_t>(b.tokens.size()));
      if (b.max_candidates > 0) b.row_requests.push_back(request_row(s, p, b.max_candidates));
    }
    b.tokens.push_back(s.tokens[p]);
    b.positions.push_back(static_cast<int32_t>(p));
  }
  b.query_start.push_back(static_cast<uint32_t>(b.tokens.size()));
  b.first_row.push_back(static_cast<uint32_t>(b.rows.size()));
  b.context_len.push_back(end);
  b.state_in.push_back(s.table.state);
  b.state_out.push_back(s.table.next_state);
  b.requests.push_back(s.request->id);
}

// One table serves all groups: they use the same block ids.
// Blocks up to the context's end: a copy that failed leaves some that wait for their tokens.
void fill_tables(const Plan& plan, const kv::BlockManager& kv, Batch& b) {
  size_t stride = 1;
  for (const Planned& p : plan.sequences)
    stride = std::max(stride, p.sequence->table.blocks.size());
  b.blocks.assign(plan.sequences.size() * stride, kv::kNullBlock);
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const Planned& planned = plan.sequences[i];
    std::copy_n(planned.sequence->table.blocks.begin(), kv.blocks_for(planned.end()),
                b.blocks.begin() + static_cast<ptrdiff_t>(i * stride));
  }
  b.tables.assign(kv.n_groups(), {b.blocks.data(), static_cast<uint32_t>(stride), 0});
}

void fill_sampling(Batch& b) {
  const auto stays = [](const bp_row_request& r) { return (r.flags & BP_ROW_LOGITS) == 0; };
  if (std::ranges::none_of(b.row_requests, stays)) return;
  b.row_results.assign(b.rows.size(), {});
  size_t n = 0;
  for (const bp_row_request& request : b.row_requests) n += request.n_candidates;
  b.candidates.resize(n);
  bp_candidate* room = b.candidates.data();
  for (bp_row_request& request : b.row_requests) {
    request.candidates = request.n_candidates == 0 ? nullptr : room;
    room += request.n_candidates;
  }
  b.sampling = make_growable<bp_sampling>();
  b.sampling.requests = b.row_requests.data();
  b.sampling.results = b.row_results.data();
  b.output.required = BP_OUTPUT_SAMPLING;
  b.output.sampling = &b.sampling;
}

void fill_output(Batch& b) {
  b.reserve_rows(b.rows.size());
  b.output = make_growable<bp_output>();
  b.output.output = b.logits_output;
  b.output.n_rows = static_cast<uint32_t>(b.rows.size());
  b.output.dtype = BP_DTYPE_F32;
  b.output.rows = b.rows.data();
  b.output.data = b.row(0).data();
  b.output.row_stride_bytes = uint64_t{b.n_vocab} * sizeof(float);
  b.greatest.assign(b.rows.size(), -1);
  b.output.greatest = b.greatest.data();
  fill_sampling(b);
}

}  // namespace

void build_batch(const Plan& plan, const kv::BlockManager& kv, Batch& b) {
  clear(b, plan.sequences.size());
  for (const Planned& planned : plan.sequences) add_sequence(planned, b);
  fill_tables(plan, kv, b);
  fill_output(b);
  b.c = make_growable<bp_batch>();
  b.c.n_tokens = static_cast<uint32_t>(b.tokens.size());
  b.c.n_seqs = static_cast<uint32_t>(plan.sequences.size());
  b.c.n_block_ops = static_cast<uint32_t>(plan.block_ops.size());
  b.c.n_groups = kv.n_groups();
  b.c.n_outputs = b.rows.empty() ? 0 : 1;
  b.c.block_ops = plan.block_ops.data();
  b.c.tokens = b.tokens.data();
  b.c.positions = b.positions.data();
  b.c.query_start = b.query_start.data();
  b.c.context_len = b.context_len.data();
  b.c.block_tables = b.tables.data();
  b.c.state_in = kv.has_states() ? b.state_in.data() : nullptr;
  b.c.state_out = kv.has_states() ? b.state_out.data() : nullptr;
  b.c.stop_seq = b.stop_seq.data();
  b.c.outputs = b.outputs;
  b.c.seq_status = b.seq_status.data();
}

}  // namespace bp::engine

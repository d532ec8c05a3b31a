#include "backplane/plugin.hpp"
#include "backplane/reference/op_call.hpp"

namespace bp::reference {

Step::Step(const bp_batch& batch, const ProgramView& program, KvCache& kv, StateCache& states,
           const Workers& workers)
    : batch_(batch), kv_(kv), states_(states), workers_(workers) {
  sequence_of_.resize(batch.n_tokens);
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    batch.seq_status[s] = BP_SEQ_OK;
    for (uint32_t t = batch.query_start[s]; t < batch.query_start[s + 1]; ++t) sequence_of_[t] = s;
  }
  output_rows_.resize(program.outputs().size());
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    output_rows_[output.output] = {output.rows, output.n_rows};
  }
}

bool Step::any_running() const {
  for (uint32_t s = 0; s < batch_.n_seqs; ++s) {
    if (is_running(s)) return true;
  }
  return false;
}

void Step::poll_stop() {
  if (batch_.stop_seq == nullptr) return;
  for (uint32_t s = 0; s < batch_.n_seqs; ++s) {
    const uint32_t stop = __atomic_load_n(&batch_.stop_seq[s], __ATOMIC_RELAXED);
    if (stop != 0 && is_running(s)) batch_.seq_status[s] = BP_SEQ_STOPPED;
  }
}

std::span<const uint32_t> Step::rows_of_output(uint32_t output) const {
  return output_rows_[output];
}

uint64_t Step::block_of(uint32_t group, uint32_t sequence, uint64_t position) const {
  const bp_block_table& table = batch_.block_tables[group];
  const uint64_t index = position / kv_.block_size();
  return static_cast<uint64_t>(table.blocks[uint64_t{sequence} * table.stride + index]);
}

}  // namespace bp::reference

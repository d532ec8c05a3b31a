#pragma once
// Stage 3: the plan as flat arrays.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backplane/batch.h"
#include "backplane/ext/device_sampling.h"
#include "core/engine/schedule.hpp"
#include "core/kv/block_manager.hpp"

namespace bp::engine {

// The memory behind a bp_batch, reused from step to step. Sequence i is plan.sequences[i].
struct Batch {
  Batch(uint32_t n_vocab, uint32_t logits_output, uint32_t max_candidates)
      : n_vocab(n_vocab), logits_output(logits_output), max_candidates(max_candidates) {}

  uint32_t n_vocab;
  uint32_t logits_output;
  uint32_t max_candidates;  // of the backend's own sampling; 0: all rows come as logits
  std::vector<int32_t> tokens, positions;       // [n_tokens]
  std::vector<uint32_t> query_start;            // [n_seqs + 1]
  std::vector<uint32_t> context_len, stop_seq;  // [n_seqs]
  std::vector<int32_t> seq_status;              // [n_seqs]
  std::vector<int32_t> blocks;                  // [n_seqs, stride], the same for all KV groups
  std::vector<bp_block_table> tables;           // [n_groups]
  std::vector<int32_t> state_in, state_out;     // [n_seqs]
  std::vector<uint32_t> rows;                   // [n_rows] indices of tokens
  std::vector<int32_t> greatest;                // [n_rows] tokens, as bp_output has them
  std::vector<uint32_t> first_row;              // [n_seqs + 1] rows of sequence i
  std::vector<RequestId> requests;              // [n_seqs]
  std::vector<bp_row_request> row_requests;     // [n_rows]
  std::vector<bp_row_result> row_results;       // [n_rows]
  std::vector<bp_candidate> candidates;         // of all row_requests
  bp_sampling sampling{};
  bp_output output{};
  const bp_output* outputs[1] = {&output};
  bp_batch c{};

  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Whether row_results[r] stands for the logits of the row, which have not come.
  [[nodiscard]] bool stays_on_device(uint32_t r) const {
    return output.sampling != nullptr && (row_requests[r].flags & BP_ROW_LOGITS) == 0;
  }
  [[nodiscard]] std::span<float> row(uint32_t r) {
    return {logits_.get() + size_t{r} * n_vocab, n_vocab};
  }
  // Room for the logits of n rows, contents undefined.
  void reserve_rows(size_t n);

 private:
  std::unique_ptr<float[]> logits_;
  size_t row_capacity_ = 0;
};

void build_batch(const Plan& plan, const kv::BlockManager& kv, Batch& batch);

}  // namespace bp::engine

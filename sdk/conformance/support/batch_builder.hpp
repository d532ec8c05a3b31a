#pragma once
// Batches for tests, of programs with at most one KV group.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "backplane/batch.h"
#include "backplane/plugin.hpp"

namespace bp::conformance {

class BatchBuilder {
 public:
  // Tokens at positions first, first + 1, ...; blocks is the sequence's block table.
  uint32_t add_sequence(const std::vector<int32_t>& tokens, int32_t first,
                        std::vector<int32_t> blocks = {}) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens_.push_back(tokens[i]);
      positions_.push_back(first + static_cast<int32_t>(i));
    }
    query_start_.push_back(static_cast<uint32_t>(tokens_.size()));
    context_len_.push_back(static_cast<uint32_t>(first) + static_cast<uint32_t>(tokens.size()));
    blocks_.push_back(std::move(blocks));
    return static_cast<uint32_t>(context_len_.size() - 1);
  }
  void add_block_op(bp_block_op op) { block_ops_.push_back(op); }
  // Rows are token indices of the batch; data begins as `fill`.
  void add_output(uint32_t output, std::vector<uint32_t> rows, uint64_t width, float fill = 0) {
    Output& stored = outputs_.emplace_back();
    stored.rows = std::move(rows);
    stored.data.assign(stored.rows.size() * width, fill);
    stored.output = make_growable<bp_output>();
    stored.output.output = output;
    stored.output.n_rows = static_cast<uint32_t>(stored.rows.size());
    stored.output.dtype = BP_DTYPE_F32;
    stored.output.row_stride_bytes = width * sizeof(float);
  }
  void set_stop(std::vector<uint32_t> stop) { stop_ = std::move(stop); }

  [[nodiscard]] uint32_t n_tokens() const { return static_cast<uint32_t>(tokens_.size()); }
  [[nodiscard]] const std::vector<float>& output(size_t i) const { return outputs_[i].data; }
  [[nodiscard]] const std::vector<int32_t>& status() const { return status_; }

  // Valid until the builder is changed. n_groups 0: without block tables.
  bp_batch build(uint32_t n_groups = 1) {
    size_t stride = 1;
    for (const auto& blocks : blocks_) stride = std::max(stride, blocks.size());
    table_.assign(stride * blocks_.size(), 0);
    for (size_t s = 0; s < blocks_.size(); ++s) {
      std::copy(blocks_[s].begin(), blocks_[s].end(),
                table_.begin() + static_cast<long>(s * stride));
    }
    block_table_ = {table_.data(), static_cast<uint32_t>(stride), 0};
    status_.assign(blocks_.size(), -1);
    output_table_.clear();
    for (Output& stored : outputs_) {
      stored.output.rows = stored.rows.data();
      stored.output.data = stored.data.data();
      output_table_.push_back(&stored.output);
    }
    auto batch = make_growable<bp_batch>();
    batch.n_tokens = n_tokens();
    batch.n_seqs = static_cast<uint32_t>(blocks_.size());
    batch.n_block_ops = static_cast<uint32_t>(block_ops_.size());
    batch.n_groups = n_groups;
    batch.n_outputs = static_cast<uint32_t>(outputs_.size());
    batch.block_ops = block_ops_.data();
    batch.tokens = tokens_.data();
    batch.positions = positions_.data();
    batch.query_start = query_start_.data();
    batch.context_len = context_len_.data();
    batch.block_tables = n_groups == 0 ? nullptr : &block_table_;
    batch.stop_seq = stop_.empty() ? nullptr : stop_.data();
    batch.outputs = output_table_.data();
    batch.seq_status = status_.data();
    return batch;
  }

 private:
  struct Output {
    std::vector<uint32_t> rows;
    std::vector<float> data;
    bp_output output;
  };

  std::vector<int32_t> tokens_, positions_;
  std::vector<uint32_t> query_start_ = {0}, context_len_, stop_;
  std::vector<std::vector<int32_t>> blocks_;
  std::vector<bp_block_op> block_ops_;
  std::deque<Output> outputs_;
  std::vector<int32_t> table_, status_;
  bp_block_table block_table_{};
  std::vector<const bp_output*> output_table_;
};

}  // namespace bp::conformance

#pragma once
// Batches for tests, and what every step owes the host whatever it computes.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backplane/batch.h"
#include "backplane/ext/device_sampling.h"
#include "backplane/plugin.hpp"
#include "backplane/row_sampling.hpp"
#include "sdk/conformance/support/guarded_rows.hpp"
#include "sdk/conformance/support/random_values.hpp"

namespace bp::conformance {

class BatchBuilder {
 public:
  using Blocks = std::vector<int32_t>;

  // Tokens at positions first, first + 1, ...; blocks is the sequence's block table, of all groups.
  uint32_t add_sequence(const std::vector<int32_t>& tokens, int32_t first, Blocks blocks = {}) {
    return add_sequence_of_groups(tokens, first, {std::move(blocks)});
  }
  // blocks[g] is the block table of group g; the last one holds for further groups.
  uint32_t add_sequence_of_groups(const std::vector<int32_t>& tokens, int32_t first,
                                  std::vector<Blocks> blocks) {
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
  // Block tables get n more columns than they need.
  void pad_tables(size_t n) { padding_ = n; }
  // Rows are token indices of the batch; data begins as `fill`.
  void add_output(uint32_t output, std::vector<uint32_t> rows, uint64_t width, float fill = 0) {
    Output& stored = add_output(output, std::move(rows));
    stored.data.assign(stored.rows.size() * width, fill);
    stored.output.row_stride_bytes = width * sizeof(float);
  }
  // Each row its request, whose candidates the caller keeps; logits go where it asks for them.
  void add_sampled_output(uint32_t output, std::vector<uint32_t> rows, uint64_t width,
                          std::vector<bp_row_request> requests, float fill = 0) {
    add_output(output, std::move(rows), width, fill);
    Output& stored = outputs_.back();
    stored.requests = std::move(requests);
    stored.results.assign(stored.requests.size(), kUnwrittenResult);
  }
  // Its rows are between guards, for broken_rule.
  void add_guarded_output(uint32_t output, std::vector<uint32_t> rows, uint64_t width) {
    Output& stored = add_output(output, std::move(rows));
    stored.guarded = std::make_unique<GuardedRows>(stored.rows.size(), width);
    stored.output.row_stride_bytes = stored.guarded->row_stride_bytes();
  }
  // Of each sequence, for programs with state slots.
  void set_states(std::vector<int32_t> in, std::vector<int32_t> out) {
    state_in_ = std::move(in);
    state_out_ = std::move(out);
  }
  void set_stop(std::vector<uint32_t> stop) { stop_ = std::move(stop); }

  [[nodiscard]] uint32_t n_tokens() const { return static_cast<uint32_t>(tokens_.size()); }
  [[nodiscard]] const std::vector<float>& output(size_t i) const { return outputs_[i].data; }
  // Of each row, -1 where the backend did not say.
  [[nodiscard]] const std::vector<int32_t>& greatest(size_t i) const {
    return outputs_[i].greatest;
  }
  [[nodiscard]] const std::vector<bp_row_result>& results(size_t i) const {
    return outputs_[i].results;
  }
  static constexpr bp_row_result kUnwrittenResult{-99, -7, -7, 99, -99, 99, 0};
  [[nodiscard]] const GuardedRows& guarded(size_t i) const { return *outputs_[i].guarded; }
  [[nodiscard]] const std::vector<int32_t>& status() const { return status_; }

  // Valid until the builder is changed. n_groups 0: without block tables.
  bp_batch build(uint32_t n_groups = 1) {
    fill_tables(n_groups);
    status_.assign(blocks_.size(), kUnwrittenStatus);
    output_table_.clear();
    for (Output& stored : outputs_) {
      stored.output.rows = stored.rows.data();
      stored.output.data = stored.guarded == nullptr ? stored.data.data() : stored.guarded->data();
      stored.greatest.assign(stored.rows.size(), -1);
      stored.output.greatest = stored.greatest.data();
      if (!stored.requests.empty()) stored.sample();
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
    batch.block_tables = n_groups == 0 ? nullptr : block_tables_.data();
    batch.state_in = state_in_.empty() ? nullptr : state_in_.data();
    batch.state_out = state_out_.empty() ? nullptr : state_out_.data();
    batch.stop_seq = stop_.empty() ? nullptr : stop_.data();
    batch.outputs = output_table_.data();
    batch.seq_status = status_.data();
    given_ = checksums();
    return batch;
  }

  // "" or the rule that a step of the batch broke: a status or a row that was not written, a write
  // outside the guarded rows, a wrong greatest value, a change of what the host gave.
  [[nodiscard]] std::string broken_rule() const {
    for (size_t s = 0; s < status_.size(); ++s) {
      const std::string name = "seq_status[" + std::to_string(s) + "]";
      if (status_[s] == kUnwrittenStatus) return name + " was not written";
      if (status_[s] < BP_SEQ_OK || status_[s] > BP_SEQ_FAILED) {
        return name + " is " + std::to_string(status_[s]) + ", which is no BP_SEQ_*";
      }
    }
    for (const Output& stored : outputs_) {
      std::string fault = stored.guarded == nullptr ? "" : fault_of(stored);
      if (fault.empty()) fault = wrong_greatest(stored);
      if (!fault.empty()) {
        return "program output " + std::to_string(stored.output.output) + ": " + fault;
      }
    }
    const auto now = checksums();
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] != given_[i]) return "the step changed the batch's " + std::string(kArrays[i]);
    }
    return {};
  }

 private:
  struct Output {
    std::vector<uint32_t> rows;
    std::vector<float> data;
    std::vector<int32_t> greatest;
    std::unique_ptr<GuardedRows> guarded;
    bp_output output;
    std::vector<bp_row_request> requests;
    std::vector<bp_row_result> results;
    bp_sampling sampling;

    void sample() {
      sampling = make_growable<bp_sampling>();
      sampling.requests = requests.data();
      sampling.results = results.data();
      output.required = BP_OUTPUT_SAMPLING;
      output.sampling = &sampling;
    }
  };
  static constexpr int32_t kUnwrittenStatus = -1;
  static constexpr std::array kArrays = {"tokens",       "positions", "query_start", "context_len",
                                         "block tables", "block_ops", "stop_seq",    "output rows"};

  Output& add_output(uint32_t output, std::vector<uint32_t> rows) {
    Output& stored = outputs_.emplace_back();
    stored.rows = std::move(rows);
    stored.output = make_growable<bp_output>();
    stored.output.output = output;
    stored.output.n_rows = static_cast<uint32_t>(stored.rows.size());
    stored.output.dtype = BP_DTYPE_F32;
    return stored;
  }

  void fill_tables(uint32_t n_groups) {
    size_t stride = 1;
    for (const auto& groups : blocks_) {
      for (const Blocks& blocks : groups) stride = std::max(stride, blocks.size());
    }
    stride += padding_;
    tables_.assign(n_groups, std::vector<int32_t>(stride * blocks_.size(), 0));
    block_tables_.clear();
    for (uint32_t g = 0; g < n_groups; ++g) {
      for (size_t s = 0; s < blocks_.size(); ++s) {
        const Blocks& blocks = blocks_[s][std::min<size_t>(g, blocks_[s].size() - 1)];
        std::copy(blocks.begin(), blocks.end(),
                  tables_[g].begin() + static_cast<std::ptrdiff_t>(s * stride));
      }
      block_tables_.push_back({tables_[g].data(), static_cast<uint32_t>(stride), 0});
    }
  }

  [[nodiscard]] int32_t status_of_token(uint32_t token) const {
    const auto next = std::upper_bound(query_start_.begin(), query_start_.end(), token);
    return status_[static_cast<size_t>(next - query_start_.begin()) - 1];
  }
  [[nodiscard]] std::string fault_of(const Output& stored) const {
    for (size_t r = 0; r < stored.rows.size(); ++r) {
      if (status_of_token(stored.rows[r]) == BP_SEQ_OK) {
        const std::string fault = stored.guarded->unwritten(r);
        if (!fault.empty()) return fault;
      } else if (!stored.guarded->is_untouched(r)) {
        return "row " + std::to_string(r) + " was written, though its sequence was not completed";
      }
    }
    return stored.guarded->overwritten();
  }

  [[nodiscard]] static std::vector<float> row_of(const Output& stored, size_t r) {
    if (stored.guarded != nullptr) return stored.guarded->row(r);
    const auto width = static_cast<std::ptrdiff_t>(stored.output.row_stride_bytes / sizeof(float));
    const auto begin = stored.data.begin() + static_cast<std::ptrdiff_t>(r) * width;
    return {begin, begin + width};
  }
  // Of what was said; saying nothing is right of any row.
  [[nodiscard]] std::string wrong_greatest(const Output& stored) const {
    for (size_t r = 0; r < stored.rows.size(); ++r) {
      const bool stays =
          !stored.requests.empty() && (stored.requests[r].flags & BP_ROW_LOGITS) == 0;
      const int32_t found = stored.greatest[r];
      if (found == -1 || stays) continue;
      const bool is_written = status_of_token(stored.rows[r]) == BP_SEQ_OK;
      const int32_t expected = is_written ? greatest_of(row_of(stored, r)) : -1;
      if (found == expected) continue;
      return "greatest of row " + std::to_string(r) + " is " + std::to_string(found) +
             ", expected " + std::to_string(expected);
    }
    return {};
  }

  template <class T>
  static uint32_t checksum(const std::vector<T>& values) {
    return seed_of({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  [[nodiscard]] std::array<uint32_t, kArrays.size()> checksums() const {
    std::vector<uint32_t> tables, rows;
    for (const auto& table : tables_) tables.push_back(checksum(table));
    for (const Output& stored : outputs_) rows.push_back(checksum(stored.rows));
    return {checksum(tokens_), checksum(positions_), checksum(query_start_), checksum(context_len_),
            checksum(tables),  checksum(block_ops_), checksum(stop_),        checksum(rows)};
  }

  std::vector<int32_t> tokens_, positions_;
  std::vector<uint32_t> query_start_ = {0}, context_len_, stop_;
  std::vector<std::vector<Blocks>> blocks_;  // [sequence][group]
  std::vector<bp_block_op> block_ops_;
  std::vector<int32_t> state_in_, state_out_;
  std::deque<Output> outputs_;
  std::vector<std::vector<int32_t>> tables_;  // of each group
  std::vector<bp_block_table> block_tables_;
  std::vector<const bp_output*> output_table_;
  std::vector<int32_t> status_;
  std::array<uint32_t, kArrays.size()> given_{};
  size_t padding_ = 0;
};

}  // namespace bp::conformance

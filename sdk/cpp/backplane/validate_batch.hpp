#pragma once
// What every backend checks of a batch before it touches any memory. Token ids are not among it: a
// bad one fails its sequence only. But an id that names a row of the step before must name one.

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "backplane/backend.h"
#include "backplane/batch.h"
#include "backplane/ext/device_sampling.h"
#include "backplane/plugin.hpp"
#include "backplane/status.hpp"

namespace bp {

struct BatchLimits {
  uint32_t max_step_tokens = 0;
  uint32_t max_sequences = 0;
  uint32_t max_context = 0;
  uint32_t max_output_rows = 0;
  uint32_t block_size = 0;
  uint32_t n_outputs = 0;                // of the program
  std::span<const uint32_t> n_blocks{};  // of each KV group, as allocated
  uint32_t n_state_slots = 0;
  uint32_t n_state_entries = 0;               // of each state slot, as allocated
  uint32_t max_candidates = 0;                // of "bp.device-sampling/1"; 0: not offered
  std::span<const uint64_t> output_widths{};  // of the program's outputs, where it is offered
  bool takes_chosen = false;                  // ids of -1-r, by its convention 7
  std::span<const uint8_t> chosen_rows{};     // list_chosen_rows of the step submitted before

  // Those that the options set; the others are the executable's to fill in.
  static BatchLimits of(const bp_compile_options& options) {
    BatchLimits limits;
    limits.max_step_tokens = options.max_step_tokens;
    limits.max_sequences = options.max_sequences;
    limits.max_context = options.max_context;
    limits.max_output_rows = options.max_output_rows;
    return limits;
  }
};

// For each row of the batch's outputs with BP_OUTPUT_SAMPLING, in their order: 1 where a token is
// to be chosen from it. `out` has room for max_output_rows where nothing may be allocated.
inline void list_chosen_rows(const bp_batch& batch, std::vector<uint8_t>& out) {
  out.clear();
  for (uint32_t i = 0; i < batch.n_outputs; ++i) {
    const bp_output output = copy_growable(batch.outputs[i]);
    if ((output.required & BP_OUTPUT_SAMPLING) == 0) continue;
    const bp_sampling sampling = copy_growable(output.sampling);
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      out.push_back(sampling.requests[r].choice != BP_CHOOSE_NONE ? 1 : 0);
    }
  }
}

namespace detail {

class BatchValidator {
 public:
  BatchValidator(const bp_batch& batch, const BatchLimits& limits)
      : batch_(batch), limits_(limits) {}

  Status run() const {
    BP_TRY(at_most("n_tokens", batch_.n_tokens, limits_.max_step_tokens));
    BP_TRY(at_most("n_seqs", batch_.n_seqs, limits_.max_sequences));
    if (batch_.n_groups != limits_.n_blocks.size()) {
      return invalid_argument("the batch has block tables of " + std::to_string(batch_.n_groups) +
                              " KV groups, the program has " +
                              std::to_string(limits_.n_blocks.size()));
    }
    BP_TRY(check_tables());
    for (uint32_t i = 0; i < batch_.n_block_ops; ++i) BP_TRY(check_block_op(i));
    if (batch_.query_start[0] != 0 || batch_.query_start[batch_.n_seqs] != batch_.n_tokens) {
      return invalid_argument("query_start must begin with 0 and end with n_tokens");
    }
    for (uint32_t s = 0; s < batch_.n_seqs; ++s) BP_TRY(check_sequence(s));
    if (limits_.takes_chosen) BP_TRY(check_chosen());
    if (limits_.n_state_slots > 0) BP_TRY(check_states());
    return check_outputs();
  }

 private:
  static Status at_most(const char* what, uint64_t found, uint64_t limit) {
    if (found <= limit) return {};
    return invalid_argument(std::string(what) + " is " + std::to_string(found) +
                            ", the limit given to compile is " + std::to_string(limit));
  }
  static std::string sequence_name(uint32_t s) { return "sequence " + std::to_string(s); }

  Status check_tables() const {
    if (batch_.query_start == nullptr || batch_.seq_status == nullptr ||
        (batch_.n_seqs > 0 && batch_.context_len == nullptr) ||
        (batch_.n_tokens > 0 && (batch_.tokens == nullptr || batch_.positions == nullptr)) ||
        (batch_.n_groups > 0 && batch_.block_tables == nullptr) ||
        (batch_.n_block_ops > 0 && batch_.block_ops == nullptr) ||
        (limits_.n_state_slots > 0 && batch_.n_seqs > 0 &&
         (batch_.state_in == nullptr || batch_.state_out == nullptr)) ||
        (batch_.n_outputs > 0 && batch_.outputs == nullptr)) {
      return invalid_argument("an array of the batch is null");
    }
    return {};
  }

  Status check_block_op(uint32_t i) const {
    const bp_block_op& op = batch_.block_ops[i];
    const std::string name = "block op " + std::to_string(i);
    if (op.action != BP_BLOCK_CLEAR && op.action != BP_BLOCK_COPY) {
      return unsupported(name + ": unknown action " + std::to_string(op.action));
    }
    const bool of_state = op.space == BP_BLOCK_OF_STATE;
    if (!of_state && op.space != BP_BLOCK_OF_GROUP) {
      return unsupported(name + ": there are no blocks of space " + std::to_string(op.space));
    }
    if (op.index >= (of_state ? limits_.n_state_slots : limits_.n_blocks.size())) {
      return invalid_argument(name + (of_state ? ": state slot " : ": KV group ") +
                              std::to_string(op.index) + " does not exist");
    }
    const auto n_blocks = int64_t{of_state ? limits_.n_state_entries : limits_.n_blocks[op.index]};
    const bool source = op.action == BP_BLOCK_CLEAR || (op.source >= 0 && op.source < n_blocks);
    if (!source || op.destination < 1 || op.destination >= n_blocks) {
      return invalid_argument(name + (of_state ? ": entry " : ": block ") +
                              std::to_string(source ? op.destination : op.source) +
                              " is out of range");
    }
    return {};
  }

  // Each sequence has entries of its own to write, which no other one reads.
  Status check_states() const {
    std::vector<uint32_t> writer(limits_.n_state_entries, BP_NONE);
    for (uint32_t s = 0; s < batch_.n_seqs; ++s) {
      BP_TRY(check_entry(s, "state_in", batch_.state_in[s], 0));
      BP_TRY(check_entry(s, "state_out", batch_.state_out[s], 1));
      uint32_t& owner = writer[static_cast<uint32_t>(batch_.state_out[s])];
      if (owner != BP_NONE) return shared_entry(owner, s, batch_.state_out[s]);
      owner = s;
    }
    for (uint32_t s = 0; s < batch_.n_seqs; ++s) {
      const uint32_t owner = writer[static_cast<uint32_t>(batch_.state_in[s])];
      if (owner != BP_NONE && owner != s) return shared_entry(owner, s, batch_.state_in[s]);
    }
    return {};
  }
  Status check_entry(uint32_t s, const char* what, int32_t entry, int32_t least) const {
    if (entry >= least && static_cast<uint32_t>(entry) < limits_.n_state_entries) return {};
    return invalid_argument(sequence_name(s) + ": " + what + " " + std::to_string(entry) +
                            " is not in [" + std::to_string(least) + ", " +
                            std::to_string(limits_.n_state_entries) + ")");
  }
  static Status shared_entry(uint32_t owner, uint32_t s, int32_t entry) {
    return invalid_argument(sequence_name(owner) + " writes state entry " + std::to_string(entry) +
                            " that " + sequence_name(s) + " uses");
  }

  Status check_sequence(uint32_t s) const {
    const uint32_t begin = batch_.query_start[s], end = batch_.query_start[s + 1];
    if (begin > end || end > batch_.n_tokens) {
      return invalid_argument(sequence_name(s) + ": query_start must not descend");
    }
    BP_TRY(at_most("context_len", batch_.context_len[s], limits_.max_context)
               .with_context(sequence_name(s)));
    if (begin == end) return {};
    const int64_t first = batch_.positions[begin];
    for (uint32_t t = begin; t < end; ++t) {
      if (first < 0 || batch_.positions[t] != first + (t - begin)) {
        return invalid_argument(sequence_name(s) + ": positions must ascend by 1 from 0 or more");
      }
    }
    if (first + (end - begin) != batch_.context_len[s]) {
      return invalid_argument(sequence_name(s) + ": context_len is " +
                              std::to_string(batch_.context_len[s]) + ", its last position " +
                              std::to_string(batch_.positions[end - 1]));
    }
    for (uint32_t g = 0; g < batch_.n_groups; ++g) BP_TRY(check_blocks(s, g, first));
    return {};
  }

  // Blocks that are written must be real, those before may be the null block (outside a window).
  Status check_blocks(uint32_t s, uint32_t group, int64_t first_written) const {
    const bp_block_table& table = batch_.block_tables[group];
    const uint64_t size = limits_.block_size;
    const uint64_t n = (batch_.context_len[s] + size - 1) / size;
    if (table.blocks == nullptr || n > table.stride) {
      return invalid_argument(sequence_name(s) + ": its block table has no room for " +
                              std::to_string(n) + " blocks");
    }
    const int32_t* blocks = table.blocks + uint64_t{s} * table.stride;
    const uint64_t first_block = static_cast<uint64_t>(first_written) / size;
    for (uint64_t i = 0; i < n; ++i) {
      const int32_t least = i < first_block ? 0 : 1;
      if (blocks[i] >= least && static_cast<uint32_t>(blocks[i]) < limits_.n_blocks[group])
        continue;
      return invalid_argument(sequence_name(s) + ": block id " + std::to_string(blocks[i]) +
                              " at index " + std::to_string(i) + " of group " +
                              std::to_string(group) + " is not in [" + std::to_string(least) +
                              ", " + std::to_string(limits_.n_blocks[group]) + ")");
    }
    return {};
  }

  Status check_chosen() const {
    for (uint32_t t = 0; t < batch_.n_tokens; ++t) {
      if (batch_.tokens[t] >= 0) continue;
      const int64_t row = -1 - int64_t{batch_.tokens[t]};
      const std::string name = "token " + std::to_string(t) + " names row " + std::to_string(row) +
                               " of the step before, ";
      const auto n_rows = static_cast<int64_t>(limits_.chosen_rows.size());
      if (row >= n_rows) {
        return invalid_argument(name + "which sampled " + std::to_string(n_rows) + " rows");
      }
      if (limits_.chosen_rows[static_cast<size_t>(row)] == 0) {
        return invalid_argument(name + "from which nothing was to be chosen (it sampled " +
                                std::to_string(n_rows) + " rows)");
      }
    }
    return {};
  }

  Status check_outputs() const {
    uint64_t n_rows = 0;
    for (uint32_t i = 0; i < batch_.n_outputs; ++i) {
      const bp_output output = copy_growable(batch_.outputs[i]);
      BP_TRY(check_output(output).with_context("output " + std::to_string(i)));
      for (uint32_t j = 0; j < i; ++j) {
        if (batch_.outputs[j]->output != output.output) continue;
        return invalid_argument("program output " + std::to_string(output.output) +
                                " is asked for twice");
      }
      n_rows += output.n_rows;
    }
    return at_most("the number of output rows", n_rows, limits_.max_output_rows);
  }

  Status check_output(const bp_output& output) const {
    const uint64_t known = limits_.max_candidates > 0 ? BP_OUTPUT_SAMPLING : 0;
    if ((output.required & ~known) != 0) return unsupported("it requires an unknown feature");
    if (output.output >= limits_.n_outputs) {
      return invalid_argument("program output " + std::to_string(output.output) +
                              " does not exist");
    }
    if (output.dtype != BP_DTYPE_F32) return unsupported("rows other than f32 are not written");
    bool any_logits = output.n_rows > 0;
    if ((output.required & BP_OUTPUT_SAMPLING) != 0) BP_TRY(check_sampling(output, any_logits));
    if (output.n_rows > 0 && (output.rows == nullptr || (any_logits && output.data == nullptr))) {
      return invalid_argument("rows or data is null");
    }
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      if (output.rows[r] < batch_.n_tokens && (r == 0 || output.rows[r - 1] < output.rows[r])) {
        continue;
      }
      return invalid_argument("rows must ascend and be tokens of the batch");
    }
    return {};
  }

  Status check_sampling(const bp_output& output, bool& any_logits) const {
    if (output.sampling == nullptr) return invalid_argument("sampling is null");
    const bp_sampling sampling = copy_growable(output.sampling);
    if (sampling.required != 0) return unsupported("its sampling requires an unknown feature");
    if (output.n_rows > 0 && (sampling.requests == nullptr || sampling.results == nullptr)) {
      return invalid_argument("requests or results of sampling are null");
    }
    if (limits_.output_widths.size() != limits_.n_outputs) {
      return internal_error("the backend did not say how wide its outputs are");
    }
    any_logits = false;
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      const bp_row_request& request = sampling.requests[r];
      BP_TRY(check_request(request, limits_.output_widths[output.output])
                 .with_context("the request of row " + std::to_string(r)));
      any_logits = any_logits || (request.flags & BP_ROW_LOGITS) != 0;
    }
    return {};
  }

  Status check_request(const bp_row_request& r, uint64_t width) const {
    if ((r.flags & ~BP_ROW_LOGITS) != 0 || r.choice > BP_CHOOSE_DRAW) {
      return unsupported("it has an unknown flag or choice");
    }
    if (r.token < -1 || (r.token >= 0 && static_cast<uint64_t>(r.token) >= width)) {
      return invalid_argument("token " + std::to_string(r.token) + " is no column of the row");
    }
    if (r.n_candidates > limits_.max_candidates || r.top_k > limits_.max_candidates) {
      return invalid_argument("n_candidates and top_k are at most " +
                              std::to_string(limits_.max_candidates));
    }
    if (r.n_candidates > 0 && r.candidates == nullptr) {
      return invalid_argument("candidates is null");
    }
    if (r.choice != BP_CHOOSE_DRAW) return {};
    const bool is_finite = r.scale <= std::numeric_limits<float>::max();
    if (r.floor <= 0 && r.scale > 0 && is_finite && r.uniform >= 0 && r.uniform < 1) return {};
    return invalid_argument("floor, scale or uniform is out of range");
  }

  const bp_batch& batch_;
  const BatchLimits& limits_;
};

}  // namespace detail

inline Status validate_batch(const bp_batch& batch, const BatchLimits& limits) {
  return detail::BatchValidator(batch, limits).run();
}

}  // namespace bp

#include "executable.hpp"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backplane/row_sampling.hpp"

#include "ops.hpp"

namespace bp::mutants {

namespace {

char* row_of(const bp_output& output, uint32_t r) {
  return static_cast<char*>(output.data) + r * output.row_stride_bytes;
}

// Copies of a batch's outputs, to be changed.
class Outputs {
 public:
  explicit Outputs(const bp_batch& batch) {
    for (uint32_t i = 0; i < batch.n_outputs; ++i)
      copies_.push_back(copy_growable(batch.outputs[i]));
    for (const bp_output& copy : copies_) table_.push_back(&copy);
  }
  [[nodiscard]] std::vector<bp_output>& all() { return copies_; }
  [[nodiscard]] const bp_output* const* table() const { return table_.data(); }

 private:
  std::vector<bp_output> copies_;
  std::vector<const bp_output*> table_;
};

}  // namespace

void leak() {
  volatile char* lost = static_cast<char*>(std::malloc(5000));
  lost[0] = 1;
}

MutantExecutable::MutantExecutable(const Host& host, const bp_program& program,
                                   const bp_compile_options& options, std::string mutation)
    : Base(host, program, options), mutation_(std::move(mutation)) {}

Status MutantExecutable::kv_allocate(std::span<const uint32_t> n_blocks) {
  if (!n_blocks.empty()) n_blocks_ = static_cast<int32_t>(n_blocks.front());
  return Base::kv_allocate(n_blocks);
}

Status MutantExecutable::run_op(const reference::OpCall& call) {
  return run_mutated(mutation_, call) ? Status() : Base::run_op(call);
}

bp_row_result MutantExecutable::sample(std::span<const float> row, const bp_row_request& request) {
  bp_row_request changed = request;
  if (is("uniform-ignored")) changed.uniform = 0.5;
  if (is("temperature-ignored")) changed.scale = 1;
  bp_row_result result = Base::sample(row, changed);
  if (is("tie-to-higher-id") && result.token >= 0 && request.choice == BP_CHOOSE_BEST) {
    const auto last = std::find(row.rbegin(), row.rend(), result.token_logit);
    result.token = static_cast<int32_t>(row.rend() - last) - 1;
  }
  if (is("sum-of-what-is-kept") && request.choice == BP_CHOOSE_DRAW && result.token >= 0) {
    const float greatest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const WeightedCandidate& kept : drawable(row, greatest, request)) {
      sum += std::exp(static_cast<double>(kept.candidate.logit - greatest));
    }
    result.log_sum = static_cast<double>(greatest) + std::log(sum);
  }
  if (is("candidates-unsorted")) {
    std::reverse(request.candidates, request.candidates + result.n_candidates);
  }
  return result;
}

uint64_t MutantExecutable::width_of(const bp_output& output) const {
  return program().values()[program().outputs()[output.output]].width;
}

Status MutantExecutable::submit(const bp_batch& batch, uint64_t& ticket) {
  if (is("copy-ignored")) return submit_without(BP_BLOCK_COPY, batch, ticket);
  if (is("clear-ignored")) return submit_without(BP_BLOCK_CLEAR, batch, ticket);
  if (is("block-ops-reversed")) return submit_reversing_block_ops(batch, ticket);
  if (is("block-ops-after-step")) return submit_then_block_ops(batch, ticket);
  if (is("second-output-unwritten")) return submit_first_output(batch, ticket);
  if (is("bad-block-accepted")) return submit_known_blocks(batch, ticket);
  if (is("last-row-unwritten")) return submit_fewer_rows(batch, ticket);
  if (is("row-end-unwritten")) return submit_whole_vectors(batch, ticket);
  if (is("status-unwritten")) return submit_keeping_status(batch, ticket);
  if (is("chosen-of-first-row")) {
    return submit_with_ids(batch, ticket, [](int32_t id) { return std::max(id, -1); });
  }
  if (is("chosen-row-unchecked")) {
    return submit_with_ids(batch, ticket, [](int32_t id) { return std::max(id, 0); });
  }
  if (is("stop-ignored")) {
    bp_batch changed = batch;
    changed.stop_seq = nullptr;
    return Base::submit(changed, ticket);
  }
  if (is("bound-to-a-thread") && std::this_thread::get_id() != creator_) {
    return internal_error("no context on this thread");
  }
  if (is("leak-in-step")) leak();
  if (is("steps-uncounted")) static_cast<void>(Base::collect(last_ticket_));
  BP_TRY(Base::submit(batch, ticket));
  last_ticket_ = ticket;
  if (is("rounding-changed")) std::fesetround(FE_UPWARD);
  if (is("write-past-row")) write_past_rows(batch);
  if (is("greatest-of-a-half")) tell_greatest_of_half(batch);
  if (is("failed-choice-fails-all")) fail_all_beside_failed(batch);
  if (is("nan-is-an-error") && has_nan(batch)) return internal_error("the logits are NaN");
  return {};
}

Status MutantExecutable::submit_without(uint32_t block_action, bp_batch batch, uint64_t& ticket) {
  std::vector<bp_block_op> ops;
  for (uint32_t i = 0; i < batch.n_block_ops; ++i) {
    if (batch.block_ops[i].action != block_action) ops.push_back(batch.block_ops[i]);
  }
  batch.block_ops = ops.data();
  batch.n_block_ops = static_cast<uint32_t>(ops.size());
  return Base::submit(batch, ticket);
}

Status MutantExecutable::submit_reversing_block_ops(bp_batch batch, uint64_t& ticket) {
  std::vector<bp_block_op> ops(batch.block_ops, batch.block_ops + batch.n_block_ops);
  std::reverse(ops.begin(), ops.end());
  batch.block_ops = ops.data();
  return Base::submit(batch, ticket);
}

Status MutantExecutable::submit_then_block_ops(bp_batch batch, uint64_t& ticket) {
  bp_batch ops_alone = batch;
  batch.n_block_ops = 0;
  BP_TRY(Base::submit(batch, ticket));
  BP_TRY(Base::collect(ticket));
  const uint32_t query_start = 0;
  ops_alone.n_tokens = ops_alone.n_seqs = ops_alone.n_outputs = 0;
  ops_alone.query_start = &query_start;
  return Base::submit(ops_alone, ticket);
}

Status MutantExecutable::submit_first_output(bp_batch batch, uint64_t& ticket) {
  batch.n_outputs = std::min(batch.n_outputs, 1u);
  return Base::submit(batch, ticket);
}

// Ids out of range become some block's.
Status MutantExecutable::submit_known_blocks(bp_batch batch, uint64_t& ticket) {
  std::vector<std::vector<int32_t>> ids;
  std::vector<bp_block_table> tables;
  for (uint32_t g = 0; g < batch.n_groups; ++g) {
    bp_block_table table = batch.block_tables[g];
    ids.emplace_back(table.blocks, table.blocks + uint64_t{batch.n_seqs} * table.stride);
    for (int32_t& id : ids.back()) id = std::clamp(id, 1, n_blocks_ - 1);
    table.blocks = ids.back().data();
    tables.push_back(table);
  }
  batch.block_tables = tables.data();
  return Base::submit(batch, ticket);
}

Status MutantExecutable::submit_fewer_rows(bp_batch batch, uint64_t& ticket) {
  Outputs outputs(batch);
  for (bp_output& output : outputs.all()) {
    if (output.n_rows > 1) --output.n_rows;
  }
  batch.outputs = outputs.table();
  return Base::submit(batch, ticket);
}

Status MutantExecutable::submit_with_ids(bp_batch batch, uint64_t& ticket,
                                         int32_t (*change)(int32_t id)) {
  std::vector<int32_t> ids(batch.tokens, batch.tokens + batch.n_tokens);
  std::transform(ids.begin(), ids.end(), ids.begin(), change);
  batch.tokens = ids.data();
  return Base::submit(batch, ticket);
}

// Writes the columns of whole vectors of 8.
Status MutantExecutable::submit_whole_vectors(const bp_batch& batch, uint64_t& ticket) {
  Outputs outputs(batch);
  std::vector<std::vector<char>> before;
  const auto tail_of = [&](const bp_output& output, uint32_t r) {
    return row_of(output, r) + width_of(output) / 8 * 8 * sizeof(float);
  };
  const auto tail_bytes = [&](const bp_output& output) {
    return width_of(output) % 8 * sizeof(float);
  };
  for (const bp_output& output : outputs.all()) {
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      before.emplace_back(tail_of(output, r), tail_of(output, r) + tail_bytes(output));
    }
  }
  BP_TRY(Base::submit(batch, ticket));
  auto saved = before.begin();
  for (const bp_output& output : outputs.all()) {
    for (uint32_t r = 0; r < output.n_rows; ++r, ++saved) {
      std::copy(saved->begin(), saved->end(), tail_of(output, r));
    }
  }
  return {};
}

Status MutantExecutable::submit_keeping_status(const bp_batch& batch, uint64_t& ticket) {
  const std::vector<int32_t> before(batch.seq_status, batch.seq_status + batch.n_seqs);
  BP_TRY(Base::submit(batch, ticket));
  std::copy(before.begin(), before.end(), batch.seq_status);
  return {};
}

Status MutantExecutable::clear_block(uint32_t group, int32_t block) {
  const bp_block_op op = {BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, group, 0, block};
  const uint32_t query_start = 0;
  int32_t seq_status = 0;
  const std::vector<bp_block_table> tables(program().header().n_kv_groups);
  auto batch = make_growable<bp_batch>();
  batch.n_block_ops = 1;
  batch.block_ops = &op;
  batch.n_groups = static_cast<uint32_t>(tables.size());
  batch.block_tables = tables.data();
  batch.query_start = &query_start;
  batch.seq_status = &seq_status;
  uint64_t ticket = 0;
  BP_TRY(Base::submit(batch, ticket));
  return Base::collect(ticket);
}

namespace {

// Of equal images: the halves of what follows the header change places.
void swap_halves(std::vector<uint8_t>& images, size_t n_images) {
  const size_t n = images.size() / n_images, header = sizeof(bp_kv_image_header);
  for (size_t i = 0; i < n_images; ++i) {
    const auto first = images.begin() + static_cast<std::ptrdiff_t>(i * n + header);
    std::rotate(first, first + static_cast<std::ptrdiff_t>((n - header) / 2),
                first + static_cast<std::ptrdiff_t>(n - header));
  }
}

}  // namespace

Status MutantExecutable::export_blocks(uint32_t group, std::span<const int32_t> blocks,
                                       std::span<uint8_t> images) {
  BP_TRY(Base::export_blocks(group, blocks, images));
  if (is("export-gives-blocks-up")) return clear_block(group, blocks.back());
  if (is("image-halves-swapped")) {
    std::vector<uint8_t> swapped(images.begin(), images.end());
    swap_halves(swapped, blocks.size());
    std::copy(swapped.begin(), swapped.end(), images.begin());
  }
  return {};
}

Status MutantExecutable::import_blocks(uint32_t group, std::span<const int32_t> blocks,
                                       std::span<const uint8_t> images) {
  std::vector<uint8_t> changed(images.begin(), images.end());
  if (is("foreign-image-accepted") && blocks.size() > 1) {
    const size_t n = images.size() / blocks.size();
    std::copy_n(images.begin(), sizeof(bp_kv_image_header),
                changed.begin() + static_cast<std::ptrdiff_t>(n));
  }
  if (is("image-halves-swapped")) swap_halves(changed, blocks.size());
  if (is("first-image-imported") && blocks.size() > 1) {
    return Base::import_blocks(group, blocks.first(1), images.first(images.size() / blocks.size()));
  }
  return Base::import_blocks(group, blocks, changed);
}

void MutantExecutable::write_past_rows(const bp_batch& batch) const {
  Outputs outputs(batch);
  for (const bp_output& output : outputs.all()) {
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      const float zero = 0;
      std::memcpy(row_of(output, r) + width_of(output) * sizeof zero, &zero, sizeof zero);
    }
  }
}

// Of the columns of a row that one of two workers has.
void MutantExecutable::tell_greatest_of_half(const bp_batch& batch) const {
  Outputs outputs(batch);
  for (const bp_output& output : outputs.all()) {
    if (output.greatest == nullptr) continue;
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      const auto* row = reinterpret_cast<const float*>(row_of(output, r));
      const auto* greatest = std::max_element(row, row + (width_of(output) + 1) / 2);
      output.greatest[r] = static_cast<int32_t>(greatest - row);
    }
  }
}

// Where the failed sequence begins with what the step before chose.
void MutantExecutable::fail_all_beside_failed(const bp_batch& batch) {
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    if (batch.seq_status[s] != BP_SEQ_FAILED || batch.tokens[batch.query_start[s]] >= 0) continue;
    std::fill_n(batch.seq_status, batch.n_seqs, BP_SEQ_FAILED);
  }
}

bool MutantExecutable::has_nan(const bp_batch& batch) const {
  Outputs outputs(batch);
  for (const bp_output& output : outputs.all()) {
    for (uint32_t r = 0; r < output.n_rows; ++r) {
      const auto* row = reinterpret_cast<const float*>(row_of(output, r));
      if (std::any_of(row, row + width_of(output), [](float x) { return std::isnan(x); })) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace bp::mutants

#include "backends/cpu/stages/attention_stage.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace bp::cpu {

namespace {

constexpr uint32_t kItemRows = 48;  // query rows of an item, about

// With no more new tokens a sequence the items of a KV head write it themselves.
constexpr uint32_t kMaxOwnWrites = 4;

constexpr size_t round_up_16(size_t n) {
  return (n + 15) / 16 * 16;
}

// Room for a query as floats or as records of 8 bits.
constexpr size_t query_words(uint32_t head_dim) {
  static_assert(kQueryRecordWords <= kKvScaleDims);
  return (size_t{head_dim} + kKvScaleDims - 1) / kKvScaleDims * kKvScaleDims;
}

constexpr uint32_t kWriteItems = 64;

uint32_t longest_query(const bp_batch& batch) {
  uint32_t longest = 0;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    longest = std::max(longest, batch.query_start[s + 1] - batch.query_start[s]);
  }
  return longest;
}

}  // namespace

AttentionStage::AttentionStage(AttentionSpec spec, const bp_kv_slot& slot)
    : spec_(std::move(spec)), slot_(slot) {
  const auto add = [this](const HeadSource& heads) {
    reads.push_back(heads.buffer);
    if (heads.rotation) reads.push_back(heads.rotation->table);
  };
  if (spec_.write) {
    add(spec_.write->keys);
    add(spec_.write->values);
  }
  if (spec_.attends) {
    add(spec_.queries);
    writes.push_back(spec_.out);
  }
}

uint32_t AttentionStage::chunk_tokens() const {
  return std::max(kMaxOwnWrites, kItemRows / group());
}

// Query rows of one item with what they have gathered so far.
class AttentionStage::Item {
 public:
  static size_t scratch_floats(uint32_t n_rows, const bp_kv_slot& slot) {
    return n_rows * (query_words(slot.k_head_dim) + round_up_16(slot.v_head_dim) + 2) +
           size_t{kMaxQueryRows} * kTilePositions + 16;
  }

  Item(const AttentionStage& stage, const StepContext& step, uint32_t sequence, Range tokens,
       uint32_t head, float* scratch)
      : spec_(stage.spec_),
        slot_(stage.slot_),
        step_(step),
        tokens_(tokens),
        head_(head),
        group_(stage.group()),
        n_rows_((tokens.end - tokens.begin) * group_),
        query_stride_(query_words(slot_.k_head_dim)),
        out_stride_(round_up_16(slot_.v_head_dim)),
        context_(step.batch->context_len[sequence]) {
    const bp_block_table& table = step.batch->block_tables[slot_.group];
    blocks_ = table.blocks + size_t{sequence} * table.stride;
    scores_ = scratch;
    queries_ = scores_ + size_t{kMaxQueryRows} * kTilePositions;
    out_ = queries_ + n_rows_ * query_stride_;
    maximum_ = out_ + n_rows_ * out_stride_;
    sum_ = maximum_ + n_rows_;
  }

  void run() {
    start();
    const uint32_t begin = seen(0).begin;
    const uint32_t end = seen(n_rows_ - 1).end;
    for (uint32_t first = begin / kTilePositions * kTilePositions; first < end;
         first += kTilePositions) {
      run_tile(first, begin, end);
    }
    finish();
  }

 private:
  [[nodiscard]] uint32_t token(uint32_t row) const { return tokens_.begin + row / group_; }
  [[nodiscard]] uint32_t query_head(uint32_t row) const { return head_ * group_ + row % group_; }

  // Positions that a row attends to; both ends ascend with the row.
  [[nodiscard]] Range seen(uint32_t row) const {
    const auto position = static_cast<uint32_t>(step_.batch->positions[token(row)]);
    const uint32_t begin =
        spec_.window != 0 && position + 1 > spec_.window ? position + 1 - spec_.window : 0;
    return {begin, spec_.causal ? position + 1 : context_};
  }
  // The part of it in the tile, relative to the tile.
  [[nodiscard]] Range seen_in(uint32_t row, uint32_t first) const {
    const Range all = seen(row);
    const uint32_t begin = std::max(all.begin, first) - first;
    const uint32_t end = std::min(std::max(all.end, first) - first, kTilePositions);
    return {begin, std::max(begin, end)};
  }

  void start() {
    for (uint32_t r = 0; r < n_rows_; ++r) {
      float* query = queries_ + r * query_stride_;
      spec_.queries.load(step_, token(r), query_head(r), query);
      if (step_.kv->k_type() == KvType::kQ8_0) {
        step_.kernels->quantize_query(query, slot_.k_head_dim);
      }
      const float* sink = spec_.sinks == nullptr ? nullptr : spec_.sinks + query_head(r);
      maximum_[r] = sink == nullptr ? -std::numeric_limits<float>::infinity() : *sink;
      sum_[r] = sink == nullptr ? 0 : 1;
    }
    std::fill_n(out_, n_rows_ * out_stride_, 0.0f);
  }

  void run_tile(uint32_t first, uint32_t begin, uint32_t end) {
    const KvTile tile = step_.kv->tile(spec_.kv_slot, head_, blocks_, first, begin, end);
    uint32_t row = 0;
    while (row < n_rows_) {
      const Range own = seen_in(row, first);
      if (own.begin == own.end) {
        ++row;
        continue;
      }
      uint32_t n = 1;
      while (n < kMaxQueryRows && row + n < n_rows_ && has_any(row + n, first)) ++n;
      run_rows(tile, first, row, n);
      row += n;
    }
  }
  [[nodiscard]] bool has_any(uint32_t row, uint32_t first) const {
    const Range own = seen_in(row, first);
    return own.begin != own.end;
  }

  void run_rows(const KvTile& tile, uint32_t first, uint32_t row, uint32_t n) {
    const Kernels& kernels = *step_.kernels;
    KvTile part = tile;
    part.first = seen_in(row, first).begin / 16;
    part.end = (seen_in(row + n - 1, first).end + 15) / 16;
    kernels.score_tile[static_cast<int>(step_.kv->k_type())](
        part, queries_ + row * query_stride_, query_stride_, n, slot_.k_head_dim, scores_);
    bool same = true;
    const Range shared = seen_in(row, first);
    for (uint32_t r = 0; r < n; ++r) {
      const Range own = seen_in(row + r, first);
      same = same && own.begin == shared.begin && own.end == shared.end;
      const float factor =
          kernels.softmax_tile(scores_ + r * kTilePositions, own.begin, own.end, spec_.scale,
                               spec_.softcap, &maximum_[row + r], &sum_[row + r]);
      float* out = out_ + (row + r) * out_stride_;
      if (factor != 1) kernels.scale(out, factor, out, out_stride_);
    }
    const AccumulateTile accumulate = kernels.accumulate_tile[static_cast<int>(step_.kv->v_type())];
    if (same) {
      accumulate(tile, scores_, n, shared.begin, shared.end, out_ + row * out_stride_, out_stride_);
      return;
    }
    for (uint32_t r = 0; r < n; ++r) {
      const Range own = seen_in(row + r, first);
      accumulate(tile, scores_ + r * kTilePositions, 1, own.begin, own.end,
                 out_ + (row + r) * out_stride_, out_stride_);
    }
  }

  void finish() const {
    for (uint32_t r = 0; r < n_rows_; ++r) {
      float* out = step_.values[spec_.out].row(token(r)) + size_t{query_head(r)} * slot_.v_head_dim;
      step_.kernels->scale(out_ + r * out_stride_, 1.0f / sum_[r], out, slot_.v_head_dim);
    }
  }

  const AttentionSpec& spec_;
  const bp_kv_slot& slot_;
  const StepContext& step_;
  Range tokens_;
  uint32_t head_;
  uint32_t group_;  // query heads of a KV head
  uint32_t n_rows_;
  size_t query_stride_;
  size_t out_stride_;
  uint32_t context_;
  const int32_t* blocks_;
  float* scores_;
  float* queries_;
  float* out_;
  float* maximum_;
  float* sum_;
};

size_t AttentionStage::scratch_bytes(const StageLimits&) const {
  const uint32_t n_rows = spec_.attends ? chunk_tokens() * group() : 0;
  const size_t heads = round_up_16(slot_.k_head_dim) + round_up_16(slot_.v_head_dim);
  return (Item::scratch_floats(n_rows, slot_) + heads) * sizeof(float) + 64;
}

void AttentionStage::write(const StepContext& step, uint32_t token, uint32_t head,
                           float* scratch) const {
  const bp_batch& batch = *step.batch;
  const uint32_t sequence = step.sequence_of[token];
  const bp_block_table& table = batch.block_tables[slot_.group];
  const auto position = static_cast<uint32_t>(batch.positions[token]);
  const uint32_t block_size = step.kv->block_size();
  const int32_t block = table.blocks[size_t{sequence} * table.stride + position / block_size];
  const float* value = spec_.write->values.raw(step, token, head);
  spec_.write->keys.load(step, token, head, scratch);
  step.kv->store(*step.kernels, spec_.kv_slot, head, block, position % block_size, scratch, value);
}

bool AttentionStage::items_write(const bp_batch& batch) const {
  return spec_.write && spec_.attends && longest_query(batch) <= kMaxOwnWrites;
}

PhaseItems AttentionStage::items(const StepContext& step, uint32_t phase) const {
  const bp_batch& batch = *step.batch;
  if (phase == 0) {
    const bool writes = spec_.write && !items_write(batch);
    return {writes ? std::min(batch.n_tokens, kWriteItems) : 0};
  }
  if (!spec_.attends) return {};
  uint32_t n_chunks = 0;
  const uint32_t chunk = chunk_tokens();
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    n_chunks += (batch.query_start[s + 1] - batch.query_start[s] + chunk - 1) / chunk;
  }
  return {n_chunks * slot_.n_kv_heads, true};
}

void AttentionStage::run(const StepContext& step, const Worker& worker, uint32_t phase,
                         Items& items) const {
  if (phase == 0) {
    write_items(step, worker, items);
  } else {
    attend_items(step, worker, items);
  }
}

void AttentionStage::write_items(const StepContext& step, const Worker& worker,
                                 Items& items) const {
  auto* scratch = reinterpret_cast<float*>(worker.scratch);
  const uint32_t n_tokens = step.batch->n_tokens;
  for (uint32_t i; (i = items.next()) != WorkShares::kNone;) {
    const Range own = part_of(i, std::min(n_tokens, kWriteItems), n_tokens);
    for (uint32_t token = own.begin; token < own.end; ++token) {
      if (step.running[step.sequence_of[token]] == 0) continue;
      for (uint32_t head = 0; head < slot_.n_kv_heads; ++head) write(step, token, head, scratch);
    }
  }
}

// Items are sequences in order, then chunks from the last, which has most to read, then heads.
void AttentionStage::attend_items(const StepContext& step, const Worker& worker,
                                  Items& items) const {
  const bp_batch& batch = *step.batch;
  const bool writes = items_write(batch);
  const uint32_t chunk = chunk_tokens();
  uint32_t next = items.next();
  uint32_t first_item = 0;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    const uint32_t begin = batch.query_start[s];
    const uint32_t n_tokens = batch.query_start[s + 1] - begin;
    const uint32_t n_chunks = (n_tokens + chunk - 1) / chunk;
    const uint32_t end_item = first_item + n_chunks * slot_.n_kv_heads;
    for (; next < end_item; next = items.next()) {
      if (step.running[s] == 0) continue;
      const uint32_t item = next - first_item;
      const uint32_t first = begin + (n_chunks - 1 - item / slot_.n_kv_heads) * chunk;
      const Range tokens{first, std::min(first + chunk, begin + n_tokens)};
      run_item(step, s, tokens, item % slot_.n_kv_heads, writes, worker.scratch);
    }
    first_item = end_item;
  }
}

void AttentionStage::run_item(const StepContext& step, uint32_t sequence, Range tokens,
                              uint32_t head, bool writes, uint8_t* scratch) const {
  auto* floats = reinterpret_cast<float*>(scratch);
  if (writes) {
    for (uint32_t t = tokens.begin; t < tokens.end; ++t) write(step, t, head, floats);
  }
  Item(*this, step, sequence, tokens, head, floats).run();
}

}  // namespace bp::cpu

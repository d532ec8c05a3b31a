#include "backends/cpu/stages/attention_stage.hpp"

#include <algorithm>

namespace bp::cpu {

namespace {

// Query rows of an item, about. Those of one share what reading a tile costs; the fewest where
// items are few.
constexpr uint32_t kMostItemRows = 256, kFewestItemRows = 64;

// With no more new tokens a sequence the items of a KV head write them themselves.
constexpr uint32_t kMaxOwnWrites = 4;

// With fewer items a worker, long sequences are split and items have fewer rows.
constexpr uint32_t kItemsPerWorker = 8;

// Room for what the spans of a round gather, and for so many a worker at least. What is folded of a
// head whose spans go on in the next round is carried there, from one of two places to the other.
constexpr size_t kSplitFloats = size_t{512} << 10;
constexpr uint32_t kSpansPerWorker = 4, kCarried = 2;

constexpr uint32_t kWriteItems = 64;

constexpr uint32_t kNoItem = WorkShares::kNone - 1;  // whose next is none

uint32_t n_new(const bp_batch& batch, uint32_t sequence) {
  return batch.query_start[sequence + 1] - batch.query_start[sequence];
}

uint32_t longest_query(const bp_batch& batch) {
  uint32_t longest = 0;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) longest = std::max(longest, n_new(batch, s));
  return longest;
}

uint32_t n_chunks(const bp_batch& batch, uint32_t sequence, uint32_t chunk_tokens) {
  return (n_new(batch, sequence) + chunk_tokens - 1) / chunk_tokens;
}

// The sequence that an item belongs to, of items that are sequences in order: n_of(s) of each.
// Quick where items ascend.
template <class NOf>
class ItemsBySequence {
 public:
  explicit ItemsBySequence(NOf n_of) : n_of_(std::move(n_of)) {}

  // The item's index within its sequence.
  uint32_t seek(uint32_t item) {
    if (item < first_) sequence_ = first_ = 0;
    for (uint32_t n; item >= first_ + (n = n_of_(sequence_)); ++sequence_) first_ += n;
    return item - first_;
  }
  [[nodiscard]] uint32_t sequence() const { return sequence_; }

 private:
  NOf n_of_;
  uint32_t sequence_ = 0, first_ = 0;
};

AttentionItem::Place whole(const bp_batch& batch, uint32_t sequence, uint32_t kv_head) {
  return {sequence, {batch.query_start[sequence], batch.query_start[sequence + 1]}, kv_head};
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

uint32_t AttentionStage::chunk_tokens(uint32_t n_rows) const {
  return std::max(kMaxOwnWrites, n_rows / group());
}

uint32_t AttentionStage::chunk_tokens(const StepContext& step) const {
  const uint64_t wanted = uint64_t{kItemsPerWorker} * step.n_workers;
  const uint64_t n = uint64_t{step.batch->n_tokens} * slot_.n_kv_heads;
  uint32_t n_rows = kMostItemRows;
  while (n_rows > kFewestItemRows && n < wanted * chunk_tokens(n_rows)) n_rows /= 2;
  return chunk_tokens(n_rows);
}

size_t AttentionStage::scratch_bytes(const StageLimits&) const {
  const uint32_t n_rows = spec_.attends ? chunk_tokens(kMostItemRows) * group() : 0;
  const size_t floats = spec_.attends ? AttentionItem::scratch_floats(n_rows, slot_) : 0;
  const bool packs = PackedTile::takes(slot_.k_head_dim, slot_.v_head_dim);
  return std::max(std::max<size_t>(floats, slot_.k_head_dim) * sizeof(float),
                  packs ? PackedTile::whole_bytes(slot_.k_head_dim) : 0);
}

void AttentionStage::begin(const StepContext& step, uint32_t phase) const {
  if (phase != 0 || !spec_.write || !step.kv->packs(spec_.kv_slot)) return;
  const bp_batch& batch = *step.batch;
  const uint32_t block_size = step.kv->block_size();
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    const uint32_t n = n_new(batch, s);
    if (n == 0 || step.running[s] == 0) continue;
    const auto first = static_cast<uint32_t>(batch.positions[batch.query_start[s]]);
    for (uint32_t b = first / block_size; b <= (first + n - 1) / block_size; ++b) {
      const uint32_t offset = b == first / block_size ? first % block_size : 0;
      step.kv->open(spec_.kv_slot, blocks_of(step, s)[b], offset);
    }
  }
}

const int32_t* AttentionStage::blocks_of(const StepContext& step, uint32_t sequence) const {
  const bp_block_table& table = step.batch->block_tables[slot_.group];
  return table.blocks + size_t{sequence} * table.stride;
}

Range AttentionStage::filled(const StepContext& step, uint32_t sequence) {
  const uint32_t end = step.batch->context_len[sequence];
  const uint32_t block_size = step.kv->block_size();
  return {(end - n_new(*step.batch, sequence)) / block_size, end / block_size};
}

size_t AttentionStage::shared_bytes(const StageLimits& limits) const {
  return spec_.attends ? shared_floats(limits.n_workers) * sizeof(float) : 0;
}

size_t AttentionStage::shared_floats(uint32_t n_workers) const {
  const size_t span_floats = AttentionItem::gathered_floats(kMaxOwnWrites * group(), slot_);
  const size_t n = n_workers == 1 ? 0 : size_t{kSpansPerWorker} * n_workers + kCarried;
  return std::max(kSplitFloats, n * span_floats);
}

bool AttentionStage::items_write(const bp_batch& batch) const {
  return spec_.write && spec_.attends && longest_query(batch) <= kMaxOwnWrites &&
         slot_.k_head_dim <= AttentionItem::kMostWritten;
}

PhaseItems AttentionStage::items(const StepContext& step, uint32_t phase) const {
  const bp_batch& batch = *step.batch;
  if (phase == 0) {
    const bool writes = spec_.write && !items_write(batch);
    return {writes ? std::min(batch.n_tokens, kWriteItems) : 0};
  }
  if (phase == 3) {
    uint32_t n = 0;
    const bool packs = spec_.write && step.kv->packs(spec_.kv_slot);
    for (uint32_t s = 0; packs && s < batch.n_seqs; ++s) {
      const Range own = filled(step, s);
      n += own.end - own.begin;
    }
    return {n * slot_.n_kv_heads};
  }
  if (!spec_.attends) return {};
  const Split parts = split(step);
  const Range round = parts.of_round(step.round);
  if (phase == 2) {
    return {parts.n > 0 ? batch.n_seqs * slot_.n_kv_heads : 0, false, round.end < parts.n};
  }
  if (parts.n > 0) return {round.end - round.begin};
  const uint32_t chunk = chunk_tokens(step);
  uint32_t n = 0;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) n += n_chunks(batch, s, chunk);
  // Many rows: the longest items first. Few, which memory bounds: neighbours to one worker, whose
  // kernels ask for the next head while they read one.
  return {n * slot_.n_kv_heads, longest_query(batch) > kMaxOwnWrites};
}

void AttentionStage::run(const StepContext& step, const Worker& worker, uint32_t phase,
                         Items& items) const {
  if (phase == 0) {
    write_items(step, worker, items);
  } else if (phase == 2) {
    fold_items(step, worker, items);
  } else if (phase == 3) {
    pack_items(step, worker, items);
  } else if (split(step).n > 0) {
    gather_items(step, worker, items);
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
      for (uint32_t head = 0; head < slot_.n_kv_heads; ++head) {
        write_token(spec_, slot_, step, token, head, scratch);
      }
    }
  }
}

// Items are sequences in order, then heads, then blocks, as they lie.
void AttentionStage::pack_items(const StepContext& step, const Worker& worker, Items& items) const {
  const auto n_blocks = [&](uint32_t s) {
    const Range own = filled(step, s);
    return own.end - own.begin;
  };
  ItemsBySequence all([&](uint32_t s) { return n_blocks(s) * slot_.n_kv_heads; });
  for (uint32_t next; (next = items.next()) != WorkShares::kNone;) {
    const uint32_t item = all.seek(next), s = all.sequence();
    if (step.running[s] == 0) continue;
    const uint32_t block = filled(step, s).begin + item % n_blocks(s);
    step.kv->pack(spec_.kv_slot, item / n_blocks(s), blocks_of(step, s)[block], worker.scratch);
  }
}

// Items are sequences in order, then chunks from the last, which has most to read, then heads.
void AttentionStage::attend_items(const StepContext& step, const Worker& worker,
                                  Items& items) const {
  const bp_batch& batch = *step.batch;
  const bool writes = items_write(batch);
  const uint32_t chunk = chunk_tokens(step);
  ItemsBySequence all([&](uint32_t s) { return n_chunks(batch, s, chunk) * slot_.n_kv_heads; });
  uint32_t last = kNoItem;
  for (uint32_t next; (next = items.next()) != WorkShares::kNone;) {
    const uint32_t item = all.seek(next), s = all.sequence();
    if (step.running[s] == 0) continue;
    const bool follows = next == last + 1;
    last = next;
    const uint32_t chunks_before = n_chunks(batch, s, chunk) - 1 - item / slot_.n_kv_heads;
    const uint32_t first = batch.query_start[s] + chunks_before * chunk;
    const Range tokens{first, std::min(first + chunk, batch.query_start[s + 1])};
    AttentionItem(spec_, slot_, step, {s, tokens, item % slot_.n_kv_heads, writes},
                  reinterpret_cast<float*>(worker.scratch))
        .run(follows);
  }
}

Range AttentionStage::spans(const StepContext& step, uint32_t sequence) const {
  const Range tokens = whole(*step.batch, sequence, 0).tokens;
  if (tokens.begin == tokens.end) return {0, 0};
  return AttentionItem::spans(spec_, *step.batch, sequence, tokens);
}

AttentionStage::Split AttentionStage::split(const StepContext& step) const {
  const bp_batch& batch = *step.batch;
  const uint32_t longest = longest_query(batch);
  if (step.n_workers == 1 || batch.n_seqs * slot_.n_kv_heads >= kItemsPerWorker * step.n_workers ||
      longest > kMaxOwnWrites) {
    return {};
  }
  uint32_t n = 0, most = 0;
  for (uint32_t s = 0; s < batch.n_seqs; ++s) {
    most = std::max(most, n_spans(step, s));
    n += n_spans(step, s) * slot_.n_kv_heads;
  }
  if (most <= 1) return {};
  const size_t span_floats = AttentionItem::gathered_floats(longest * group(), slot_);
  const auto n_fit = static_cast<uint32_t>(shared_floats(step.n_workers) / span_floats) - kCarried;
  // Of several rounds, as many for each worker.
  return {n, n <= n_fit ? n : n_fit / step.n_workers * step.n_workers, span_floats};
}

// The round is another once these items are complete, so it is read when one has been taken.
void AttentionStage::gather_items(const StepContext& step, const Worker& worker,
                                  Items& items) const {
  const bp_batch& batch = *step.batch;
  const bool writes = items_write(batch);
  const Split parts = split(step);
  auto* const scratch = reinterpret_cast<float*>(worker.scratch);
  auto* const gathered = reinterpret_cast<float*>(step.shared);
  ItemsBySequence all([&](uint32_t s) { return n_spans(step, s) * slot_.n_kv_heads; });
  uint32_t last = kNoItem;
  for (uint32_t next; (next = items.next()) != WorkShares::kNone;) {
    const uint32_t item = all.seek(parts.of_round(step.round).begin + next), s = all.sequence();
    if (step.running[s] == 0) continue;
    const uint32_t n = n_spans(step, s), nth = item % n, span = spans(step, s).begin + nth;
    const bool continues = nth > 0 && next == last + 1;
    AttentionItem::Place place = whole(batch, s, item / n);
    place.writes = writes;
    AttentionItem(spec_, slot_, step, place, scratch)
        .gather(span, continues, gathered + next * parts.span_floats);
    last = next;
  }
}

// Items are sequences in order, then heads, of which those whose spans are of other rounds are
// none.
void AttentionStage::fold_items(const StepContext& step, const Worker& worker, Items& items) const {
  const Split parts = split(step);
  auto* const gathered = reinterpret_cast<float*>(step.shared);
  const auto carried = [&](uint32_t round) {  // to the next one
    return gathered + (parts.n_of_round + round % kCarried) * parts.span_floats;
  };
  for (uint32_t next; (next = items.next()) != WorkShares::kNone;) {
    const uint32_t s = next / slot_.n_kv_heads, head = next % slot_.n_kv_heads;
    if (step.running[s] == 0) continue;
    const Range round = parts.of_round(step.round);
    uint32_t first = head * n_spans(step, s);
    for (uint32_t before = 0; before < s; ++before) {
      first += n_spans(step, before) * slot_.n_kv_heads;
    }
    const uint32_t begin = std::max(first, round.begin);
    const uint32_t end = std::min(first + n_spans(step, s), round.end);
    if (begin >= end) continue;
    AttentionItem(spec_, slot_, step, whole(*step.batch, s, head),
                  reinterpret_cast<float*>(worker.scratch))
        .fold({begin - first, end - first},
              {gathered + (begin - round.begin) * parts.span_floats, parts.span_floats,
               carried(step.round + kCarried - 1), carried(step.round)});
  }
}

}  // namespace bp::cpu

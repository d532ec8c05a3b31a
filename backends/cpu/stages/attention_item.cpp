#include "backends/cpu/stages/attention_item.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kv_layout.hpp"
#include "backends/cpu/round_up.hpp"
#include "backplane/position_bias.hpp"

namespace bp::cpu {

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();  // maximum of no scores

constexpr size_t kSums = 16;  // of a row

// Room for a query in every form.
constexpr size_t query_words(uint32_t head_dim) {
  static_assert(kQueryRecordWords <= kKvScaleDims && kKeyPairDims == kKvScaleDims);
  return round_up(head_dim, kKvScaleDims);
}

// Of values that are hidden.
constexpr size_t hidden_floats(const bp_kv_slot& slot) {
  return kTilePositions * round_up(slot.v_head_dim, 16) / 2;
}

// Positions that a token attends to; both ends ascend with the token.
Range seen_by(const AttentionSpec& spec, const bp_batch& batch, uint32_t sequence, uint32_t token) {
  const auto position = static_cast<uint32_t>(batch.positions[token]);
  const bool is_cut = spec.window != 0 && position + 1 > spec.window;
  return {is_cut ? position + 1 - spec.window : 0,
          spec.causal ? position + 1 : batch.context_len[sequence]};
}

}  // namespace

void write_token(const AttentionSpec& spec, const bp_kv_slot& slot, const StepContext& step,
                 uint32_t token, uint32_t head, float* scratch) {
  const bp_block_table& table = step.batch->block_tables[slot.group];
  const auto position = static_cast<uint32_t>(step.batch->positions[token]);
  const uint32_t block_size = step.kv->block_size();
  const int32_t* blocks = table.blocks + size_t{step.sequence_of[token]} * table.stride;
  const float* value = spec.write->values.raw(step, token, head);
  spec.write->keys.load(step, token, head, scratch);
  step.kv->store(*step.kernels, spec.kv_slot, head, blocks[position / block_size],
                 position % block_size, scratch, value);
}

size_t AttentionItem::gathered_floats(uint32_t n_rows, const bp_kv_slot& slot) {
  return n_rows * (round_up(slot.v_head_dim, kKvScaleDims) + kSums) + round_up(n_rows, 16);
}

size_t AttentionItem::scratch_floats(uint32_t n_rows, const bp_kv_slot& slot) {
  const bool packs = PackedTile::takes(slot.k_head_dim, slot.v_head_dim);
  return size_t{kMaxQueryRows} * kTilePositions + n_rows * query_words(slot.k_head_dim) +
         2 * gathered_floats(n_rows, slot) + hidden_floats(slot) +
         (packs ? PackedTile::whole_bytes(slot.k_head_dim) / sizeof(float) : 0);
}

AttentionItem::AttentionItem(const AttentionSpec& spec, const bp_kv_slot& slot,
                             const StepContext& step, Place place, float* scratch)
    : spec_(spec),
      slot_(slot),
      step_(step),
      kernels_(*step.kernels),
      place_(place),
      group_(spec.n_heads / slot.n_kv_heads),
      n_rows_((place.tokens.end - place.tokens.begin) * group_),
      unpacks_(step.kv->packs(spec.kv_slot) && n_rows_ > kernels_.packed_rows),
      k_type_(static_cast<int>(step.kv->k_type())),
      v_type_(static_cast<int>(step.kv->v_type())),
      query_stride_(query_words(slot.k_head_dim)),
      n_columns_(round_up(slot.v_head_dim, kKvScaleDims)),
      row_stride_(n_columns_ + kSums) {
  const bp_block_table& table = step.batch->block_tables[slot.group];
  blocks_ = table.blocks + size_t{place.sequence} * table.stride;
  scores_ = scratch;
  queries_ = scores_ + size_t{kMaxQueryRows} * kTilePositions;
  float* floats = queries_ + n_rows_ * query_stride_;
  span_ = gathered_at(floats);
  floats += gathered_floats(n_rows_, slot);
  total_ = gathered_at(floats);
  floats += gathered_floats(n_rows_, slot);
  hidden_ = reinterpret_cast<uint16_t*>(floats);
  unpacked_ = reinterpret_cast<uint16_t*>(floats + hidden_floats(slot));
  const auto seen_by_token = [&](uint32_t token) {
    return seen_by(spec, *step.batch, place.sequence, token);
  };
  read_ = {seen_by_token(place.tokens.begin).begin, seen_by_token(place.tokens.end - 1).end};
}

Range AttentionItem::seen(uint32_t row) const {
  if (is_one_token()) return read_;
  return seen_by(spec_, *step_.batch, place_.sequence, token(row));
}

// What rows see of a span.
Range AttentionItem::seen_in_span(uint32_t span) const {
  return {std::max(seen(0).begin, span * kSpanPositions),
          std::min(seen(n_rows_ - 1).end, (span + 1) * kSpanPositions)};
}

// The part of it in the tile that begins at first, relative to the tile.
Range AttentionItem::seen_in(uint32_t row, uint32_t first) const {
  const Range all = seen(row);
  const uint32_t begin = std::max(all.begin, first) - first;
  const uint32_t end = std::min(std::max(all.end, first) - first, kTilePositions);
  return {begin, std::max(begin, end)};
}

bool AttentionItem::sees(uint32_t row, uint32_t first) const {
  const Range own = seen_in(row, first);
  return own.begin != own.end;
}

Range AttentionItem::spans(const AttentionSpec& spec, const bp_batch& batch, uint32_t sequence,
                           Range tokens) {
  const uint32_t begin = seen_by(spec, batch, sequence, tokens.begin).begin;
  const uint32_t end = seen_by(spec, batch, sequence, tokens.end - 1).end;
  return {begin / kSpanPositions, (end + kSpanPositions - 1) / kSpanPositions};
}

void AttentionItem::run(bool follows) {
  const Range all = spans();
  if (!follows || !asks_enough()) {
    step_.kv->prefetch(spec_.kv_slot, kept_at(read_.begin), read_.end);
  }
  load_queries();
  if (all.end - all.begin == 1) {
    gather(all.begin, span_);
    return finish(span_);
  }
  clear(total_);
  for (uint32_t span = all.begin; span < all.end; ++span) {
    gather(span, span_);
    fold(span_, total_);
  }
  finish(total_);
}

void AttentionItem::gather(uint32_t span, bool continues, float* floats) {
  if (!continues) {
    step_.kv->prefetch(spec_.kv_slot, kept_at(seen_in_span(span).begin), read_.end);
    load_queries();
  }
  gather(span, gathered_at(floats));
}

void AttentionItem::fold(Range nth, const Folded& folded) {
  const uint32_t n = spans().end - spans().begin;
  if (n == 1) return finish(gathered_at(folded.spans));
  if (nth.end < n) total_ = gathered_at(folded.after);
  if (nth.begin == 0) {
    clear(total_);
  } else {
    std::copy_n(folded.before, gathered_floats(n_rows_, slot_), total_.rows);
  }
  for (uint32_t i = 0; i < nth.end - nth.begin; ++i) {
    fold(gathered_at(folded.spans + i * folded.stride), total_);
  }
  if (nth.end == n) finish(total_);
}

void AttentionItem::load_queries() {
  for (uint32_t r = 0; r < n_rows_; ++r) {
    float* query = queries_ + r * query_stride_;
    spec_.queries.load(step_, token(r), query_head(r), query);
    std::fill(query + slot_.k_head_dim, query + query_stride_, 0.0f);
    if (kernels_.pack_query[k_type_] != nullptr) {
      kernels_.pack_query[k_type_](query, slot_.k_head_dim);
    }
  }
}

void AttentionItem::clear(const Gathered& gathered) const {
  std::fill_n(gathered.rows, n_rows_ * row_stride_, 0.0f);
  std::fill_n(gathered.maximum, n_rows_, kNothing);
}

void AttentionItem::gather(uint32_t span, const Gathered& into) {
  clear(into);
  const Range own = seen_in_span(span);
  for (uint32_t first = own.begin / kTilePositions * kTilePositions; first < own.end;
       first += kTilePositions) {
    // Tiles are unpacked faster than memory gives them.
    const uint32_t next = first + kTilePositions;
    if (unpacks_ && next < own.end) step_.kv->prefetch(spec_.kv_slot, kept_at(next));
    run_tile(first, into);
  }
}

// What a worker reads after the block of a position, in the order in which it gets items: the next
// block, after the last one the first one of the next head, of the next sequence after the last.
AttentionItem::NextRead AttentionItem::after_block(uint32_t position) const {
  const Divisor block_size = step_.kv->block_size();
  const uint32_t next = (position / block_size + 1) * block_size;
  if (next < read_.end) return {kept_at(next), read_.end};
  if (place_.kv_head + 1 < slot_.n_kv_heads) {
    return {{blocks_, place_.kv_head + 1, read_.begin}, read_.end};
  }
  const bp_batch& batch = *step_.batch;
  const uint32_t sequence = place_.sequence + 1;
  if (sequence >= batch.n_seqs) return {};
  const Range tokens{batch.query_start[sequence], batch.query_start[sequence + 1]};
  if (tokens.begin == tokens.end) return {};
  const bp_block_table& table = batch.block_tables[slot_.group];
  return {{table.blocks + size_t{sequence} * table.stride, 0,
           seen_by(spec_, batch, sequence, tokens.begin).begin},
          seen_by(spec_, batch, sequence, tokens.end - 1).end};
}

void AttentionItem::look_ahead(uint32_t first, KvTile& tile) const {
  const NextRead next = after_block(first);
  if (next.place.blocks == nullptr) return;
  step_.kv->look_ahead(spec_.kv_slot, kept_at(first), next.place, tile);
  tile.wanted_first = tile.first;
  tile.wanted_end = tile.end;
  if (step_.kv->block_size() != kTilePositions) return;
  const uint32_t begin = next.place.position / kTilePositions * kTilePositions;
  tile.wanted_first = (next.place.position - begin) / kKvLanes;
  tile.wanted_end = (std::min(next.end - begin, kTilePositions) + kKvLanes - 1) / kKvLanes;
}

bool AttentionItem::asks_enough() const {
  return n_rows_ <= std::min(kernels_.wanting_rows[k_type_], kernels_.wanting_rows[v_type_]);
}

// Nobody reads them in another tile.
void AttentionItem::write_tile(uint32_t first) const {
  for (uint32_t t = place_.tokens.begin; t < place_.tokens.end; ++t) {
    const auto position = static_cast<uint32_t>(step_.batch->positions[t]);
    if (position / kTilePositions != first / kTilePositions) continue;
    write_token(spec_, slot_, step_, t, place_.kv_head, scores_);
  }
}

KvTile AttentionItem::unpacked(const KvTile& tile) const {
  const uint32_t n_dims = tile.packed.n_dims;
  kernels_.unpack_tile(tile, unpacked_);
  KvTile whole = tile;
  whole.packed = {};
  whole.value_stride = n_dims;
  for (uint32_t g = 0; g < kTileGroups; ++g) {
    whole.keys[g] = unpacked_ + size_t{g} * kKvLanes * n_dims;
    whole.values[g] = unpacked_ + size_t{kTilePositions + g / 2 * kValuePairPositions} * n_dims;
  }
  whole.ahead = whole.second_ahead = 0;  // asked for already
  whole.wanted_end = whole.wanted_first;
  return whole;
}

void AttentionItem::run_tile(uint32_t first, const Gathered& into) {
  if (place_.writes) write_tile(first);
  KvTile tile = step_.kv->tile(spec_.kv_slot, kept_at(first), seen(0).begin, seen(n_rows_ - 1).end);
  look_ahead(first, tile);
  if (unpacks_ && tile.packed.first != nullptr) tile = unpacked(tile);
  uint32_t begin = 0;
  while (begin < n_rows_ && !sees(begin, first)) ++begin;
  uint32_t end = n_rows_;
  while (end > begin && !sees(end - 1, first)) --end;
  for (uint32_t row = begin; row < end; row += kMaxQueryRows) {
    run_rows(tile, first, {row, std::min(row + kMaxQueryRows, end)}, into);
  }
}

void AttentionItem::run_rows(const KvTile& tile, uint32_t first, Range rows, const Gathered& into) {
  const Range foremost = seen_in(rows.begin, first), last = seen_in(rows.end - 1, first);
  KvTile part = tile;
  part.first = foremost.begin / 16;
  part.end = (last.end + 15) / 16;
  kernels_.score_tile[k_type_](part, queries_ + rows.begin * query_stride_, query_stride_,
                               rows.end - rows.begin, slot_.k_head_dim, scores_);
  float* scores = scores_;
  for (uint32_t r = rows.begin, next; r < rows.end; r = next) {
    next = foremost == last ? rows.end : std::min(end_of_token(r), rows.end);
    weigh({r, next}, first, seen_in(r, first), scores, into);
    scores += (next - r) * kTilePositions;
  }
  accumulate(tile, first, rows, foremost, last, into.rows + rows.begin * row_stride_);
}

// Scores of rows that see the same positions of the tile become probabilities.
void AttentionItem::weigh(Range rows, uint32_t first, Range own, float* scores,
                          const Gathered& into) const {
  const uint32_t n = rows.end - rows.begin;
  for (uint32_t i = 0; spec_.slopes != nullptr && i < n; ++i) {
    add_biases(rows.begin + i, first, own, scores + i * kTilePositions);
  }
  float factors[kMaxQueryRows];
  float* gathered = into.rows + rows.begin * row_stride_;
  kernels_.softmax_tile[v_type_](
      scores, n, own.begin, own.end, spec_.scale, spec_.softcap,
      {into.maximum + rows.begin, gathered + n_columns_, row_stride_, factors});
  for (uint32_t i = 0; i < n; ++i) {
    float* row = gathered + i * row_stride_;
    if (factors[i] != 1) kernels_.scale(row, factors[i], row, n_columns_);
  }
}

// Positions count from first, that of the tile.
void AttentionItem::add_biases(uint32_t row, uint32_t first, Range positions, float* scores) const {
  const float slope = spec_.slopes[query_head(row)];
  const int64_t own = step_.batch->positions[token(row)];
  for (uint32_t i = positions.begin; i < positions.end; ++i) {
    scores[i] += position_bias(spec_.slope_rounding, slope, int64_t{first} + i, own);
  }
}

// Rows whose probability of a position is 0 multiply it all the same, unless that gives NaN or what
// they give depends on where the range ends; else the rows of each token, which see the same, go
// alone. Rows that all see the same multiply just the neighbours of its ends besides.
void AttentionItem::accumulate(const KvTile& tile, uint32_t first, Range rows, Range foremost,
                               Range last, float* out) {
  const Range all{foremost.begin, last.end};
  const bool whole = last.begin == 0 && foremost.end == kTilePositions;
  const AccumulateTile accumulate = kernels_.accumulate_tile[v_type_];
  const auto finite = [&](uint32_t begin, uint32_t end) {
    const ValuesFinite are_finite = kernels_.values_finite[v_type_];
    return are_finite != nullptr && are_finite(tile, begin, end);
  };
  const bool is_packed = tile.packed.first != nullptr;  // and finite
  if (whole || is_packed ||
      (foremost == last ? finite(all.begin, all.begin + 1) && finite(all.end - 1, all.end)
                        : finite(all.begin, all.end))) {
    return accumulate(tile, scores_, rows.end - rows.begin, all.begin, all.end, out, row_stride_);
  }
  for (uint32_t r = rows.begin, next; r < rows.end; r = next) {
    next = std::min(end_of_token(r), rows.end);
    const Range own = seen_in(r, first);
    accumulate(step_.kv->hide_values(tile, own.begin, own.end, hidden_),
               scores_ + (r - rows.begin) * kTilePositions, next - r, own.begin, own.end,
               out + (r - rows.begin) * row_stride_, row_stride_);
  }
}

void AttentionItem::fold(const Gathered& from, const Gathered& into) const {
  for (uint32_t r = 0; r < n_rows_; ++r) {
    const float* own = from.rows + r * row_stride_;
    float* row = into.rows + r * row_stride_;
    const bool is_empty = from.maximum[r] == kNothing && own[n_columns_] == 0;
    if (is_empty) continue;
    const float maximum = std::max(into.maximum[r], from.maximum[r]);
    kernels_.scale(row, std::exp2(into.maximum[r] - maximum), row, row_stride_);
    kernels_.multiply_add(own, std::exp2(from.maximum[r] - maximum), row, row, row_stride_);
    into.maximum[r] = maximum;
  }
}

// A sink adds to the sum as a score would.
void AttentionItem::finish(const Gathered& gathered) const {
  constexpr float kLog2E = 1.44269504088896341f;
  for (uint32_t r = 0; r < n_rows_; ++r) {
    const float* row = gathered.rows + r * row_stride_;
    float factor = 1, sum = kernels_.sum(row + n_columns_, kSums);
    if (spec_.sinks != nullptr) {
      const float sink = spec_.sinks[query_head(r)] * kLog2E;
      const float maximum = std::max(gathered.maximum[r], sink);
      factor = std::exp2(gathered.maximum[r] - maximum);
      sum = sum * factor + std::exp2(sink - maximum);
    }
    float* out = step_.values[spec_.out].row(token(r)) + size_t{query_head(r)} * slot_.v_head_dim;
    kernels_.scale(row, factor / sum, out, slot_.v_head_dim);
  }
}

}  // namespace bp::cpu

#pragma once
// Attention of the query heads of one KV head, for some tokens of a sequence.
//
// Positions are gathered tile by tile within spans of kSpanPositions absolute positions, and spans
// are folded in ascending order: a row's result depends neither on the rows beside it nor on which
// worker gathered which span.

#include "backends/cpu/stages/attention_spec.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

inline constexpr uint32_t kSpanPositions = 512;

// What rows have gathered: values weighed by 2^(score - maximum), then 16 sums of the weights.
struct Gathered {
  float* rows;  // [n_rows, row_stride]
  float* maximum;
};

// Writes a token's key and value of one head. scratch: [k_head_dim].
void write_token(const AttentionSpec& spec, const bp_kv_slot& slot, const StepContext& step,
                 uint32_t token, uint32_t head, float* scratch);

class AttentionItem {
 public:
  struct Place {
    uint32_t sequence;
    Range tokens;
    uint32_t kv_head;
    // Writes the tokens' keys and values just before it reads their tile, which has been asked for
    // by then. Precondition: k_head_dim is at most kMostWritten.
    bool writes = false;
  };
  static constexpr uint32_t kMostWritten = kMaxQueryRows * kTilePositions;

  static size_t gathered_floats(uint32_t n_rows, const bp_kv_slot& slot);
  static size_t scratch_floats(uint32_t n_rows, const bp_kv_slot& slot);

  // scratch is aligned to 64.
  AttentionItem(const AttentionSpec& spec, const bp_kv_slot& slot, const StepContext& step,
                Place place, float* scratch);

  // Everything, into the output. follows: the scratch's last item was the one before, which has
  // asked for what this one reads first.
  void run(bool follows);

  // In two parts: each span by itself into floats [gathered_floats], then all of them, one after
  // another, into the output. continues: the scratch's last item was the span before, of the same
  // place.
  void gather(uint32_t span, bool continues, float* floats);

  // Spans as they lie one after another, and what is folded of those before them and with them,
  // where there are others before or after.
  struct Folded {
    float* spans;
    size_t stride;
    const float* before;
    float* after;
  };
  // nth: which of the place's spans.
  void fold(Range nth, const Folded& folded);

  // Spans that the rows of the tokens attend to.
  static Range spans(const AttentionSpec& spec, const bp_batch& batch, uint32_t sequence,
                     Range tokens);

 private:
  [[nodiscard]] uint32_t token(uint32_t row) const { return place_.tokens.begin + row / group_; }
  [[nodiscard]] bool is_one_token() const { return n_rows_ == group_; }
  // Of the rows of its token.
  [[nodiscard]] uint32_t end_of_token(uint32_t row) const { return (row / group_ + 1) * group_; }
  [[nodiscard]] uint32_t query_head(uint32_t row) const {
    return place_.kv_head * group_ + row % group_;
  }
  [[nodiscard]] Range spans() const {
    return spans(spec_, *step_.batch, place_.sequence, place_.tokens);
  }
  [[nodiscard]] KvCache::Place kept_at(uint32_t position) const {
    return {blocks_, place_.kv_head, position};
  }
  [[nodiscard]] Range seen(uint32_t row) const;
  [[nodiscard]] Range seen_in_span(uint32_t span) const;
  [[nodiscard]] Range seen_in(uint32_t row, uint32_t first) const;
  [[nodiscard]] bool sees(uint32_t row, uint32_t first) const;

  void load_queries();
  [[nodiscard]] Gathered gathered_at(float* floats) const {
    return {floats, floats + n_rows_ * row_stride_};
  }
  void clear(const Gathered& gathered) const;
  void gather(uint32_t span, const Gathered& into);
  // Where what is read next begins, no blocks if nothing is, and the position at which it ends.
  struct NextRead {
    KvCache::Place place{};
    uint32_t end = 0;
  };
  [[nodiscard]] NextRead after_block(uint32_t position) const;
  // Tells the tile of positions from `first` on what is read after it.
  void look_ahead(uint32_t first, KvTile& tile) const;
  // Whether tiles ask for all that is read after them.
  [[nodiscard]] bool asks_enough() const;
  void write_tile(uint32_t first) const;
  // A packed tile as it was.
  [[nodiscard]] KvTile unpacked(const KvTile& tile) const;
  void run_tile(uint32_t first, const Gathered& into);
  void run_rows(const KvTile& tile, uint32_t first, Range rows, const Gathered& into);
  void weigh(Range rows, uint32_t first, Range own, float* scores, const Gathered& into) const;
  void add_biases(uint32_t row, uint32_t first, Range positions, float* scores) const;
  // foremost, last: what the first and the last of the rows see of the tile.
  void accumulate(const KvTile& tile, uint32_t first, Range rows, Range foremost, Range last,
                  float* out);
  void fold(const Gathered& from, const Gathered& into) const;
  void finish(const Gathered& gathered) const;

  const AttentionSpec& spec_;
  const bp_kv_slot& slot_;
  const StepContext& step_;
  const Kernels& kernels_;
  Place place_;
  Range read_{};   // positions
  Divisor group_;  // query heads of a KV head
  uint32_t n_rows_;
  bool unpacks_;         // packed tiles, since so many rows read them again and again
  int k_type_, v_type_;  // of the kernels
  size_t query_stride_;
  size_t n_columns_;   // of values, rounded up to 32
  size_t row_stride_;  // of what is gathered
  const int32_t* blocks_;
  float* scores_;       // [kMaxQueryRows, kTilePositions]
  float* queries_;      // [n_rows, query_stride]
  uint16_t* hidden_;    // a tile of bf16 values
  uint16_t* unpacked_;  // keys and values of a tile
  Gathered span_, total_;
};

}  // namespace bp::cpu

#pragma once
// Writing keys and values to the cache, and attention over it.

#include "backends/cpu/stages/attention_item.hpp"
#include "backends/cpu/stages/attention_spec.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

class AttentionStage : public Stage {
 public:
  AttentionStage(AttentionSpec spec, const bp_kv_slot& slot);
  // Opens the blocks that are written.
  void begin(const StepContext& step, uint32_t phase) const override;
  // Phase 0 writes, unless the items of phase 1 do, which attend; phase 2 folds the spans that
  // phase 1 gathered apart, in rounds where what they gather does not fit into shared memory; phase
  // 3 packs the blocks that have become full.
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const override;

 private:
  void write_items(const StepContext& step, const Worker& worker, Items& items) const;
  // Whether the items of a KV head write it, so that no phase stands between writing and reading.
  [[nodiscard]] bool items_write(const bp_batch& batch) const;

  void attend_items(const StepContext& step, const Worker& worker, Items& items) const;

  // The spans of sequences in order, then heads, as items of their own, round by round.
  struct Split {
    uint32_t n = 0;           // of all rounds; 0: spans are no items
    uint32_t n_of_round = 0;  // but the last, which may have fewer
    size_t span_floats = 0;   // room for what one of them gathers
    [[nodiscard]] Range of_round(uint32_t round) const {
      return {std::min(n, round * n_of_round), std::min(n, (round + 1) * n_of_round)};
    }
  };
  [[nodiscard]] Split split(const StepContext& step) const;
  void gather_items(const StepContext& step, const Worker& worker, Items& items) const;
  void fold_items(const StepContext& step, const Worker& worker, Items& items) const;
  [[nodiscard]] Range spans(const StepContext& step, uint32_t sequence) const;
  [[nodiscard]] uint32_t n_spans(const StepContext& step, uint32_t sequence) const {
    const Range own = spans(step, sequence);
    return own.end - own.begin;
  }
  [[nodiscard]] size_t shared_floats(uint32_t n_workers) const;

  void pack_items(const StepContext& step, const Worker& worker, Items& items) const;
  // Blocks of a sequence, by their number in it, that are full from this step on.
  [[nodiscard]] static Range filled(const StepContext& step, uint32_t sequence);
  [[nodiscard]] const int32_t* blocks_of(const StepContext& step, uint32_t sequence) const;

  // Tokens of a sequence whose queries share one pass over the cache.
  // Of an item of so many query rows; of the step's items.
  [[nodiscard]] uint32_t chunk_tokens(uint32_t n_rows) const;
  [[nodiscard]] uint32_t chunk_tokens(const StepContext& step) const;
  [[nodiscard]] uint32_t group() const { return spec_.n_heads / slot_.n_kv_heads; }

  AttentionSpec spec_;
  bp_kv_slot slot_;
};

}  // namespace bp::cpu

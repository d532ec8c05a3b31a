#pragma once
// Writing keys and values to the cache, and attention over it.

#include <optional>

#include "backends/cpu/rows/head_source.hpp"
#include "backends/cpu/stages/stage.hpp"

namespace bp::cpu {

struct KvWriteSpec {
  HeadSource keys;
  HeadSource values;
};

struct AttentionSpec {
  uint32_t kv_slot = 0;
  std::optional<KvWriteSpec> write;
  bool attends = true;  // false: the rest is absent
  HeadSource queries;
  uint32_t out = 0;  // buffer
  uint32_t n_heads = 0;
  bool causal = true;
  uint32_t window = 0;
  float scale = 1;
  float softcap = 0;
  const float* sinks = nullptr;  // [n_heads]
};

class AttentionStage : public Stage {
 public:
  AttentionStage(AttentionSpec spec, const bp_kv_slot& slot);
  // Phase 0 writes, unless the items of phase 1 do, which attend.
  [[nodiscard]] PhaseItems items(const StepContext& step, uint32_t phase) const override;
  void run(const StepContext& step, const Worker& worker, uint32_t phase,
           Items& items) const override;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const override;

 private:
  class Item;

  void write(const StepContext& step, uint32_t token, uint32_t head, float* scratch) const;
  void write_items(const StepContext& step, const Worker& worker, Items& items) const;
  void attend_items(const StepContext& step, const Worker& worker, Items& items) const;
  // Whether the item of a KV head writes it, so that no phase stands between writing and reading.
  [[nodiscard]] bool items_write(const bp_batch& batch) const;
  void run_item(const StepContext& step, uint32_t sequence, Range tokens, uint32_t head,
                bool writes, uint8_t* scratch) const;
  // Tokens of a sequence whose queries share one pass over the cache.
  [[nodiscard]] uint32_t chunk_tokens() const;
  [[nodiscard]] uint32_t group() const { return spec_.n_heads / slot_.n_kv_heads; }

  AttentionSpec spec_;
  bp_kv_slot slot_;
};

}  // namespace bp::cpu

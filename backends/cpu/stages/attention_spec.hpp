#pragma once
// What an attention op of the plan reads, writes and computes.

#include <optional>

#include "backends/cpu/rows/head_source.hpp"
#include "backplane/ops.h"

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
  const float* sinks = nullptr;   // [n_heads]
  const float* slopes = nullptr;  // [n_heads]
  uint32_t slope_rounding = BP_SLOPES_EXACT;
};

}  // namespace bp::cpu

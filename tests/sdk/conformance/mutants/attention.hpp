#pragma once
// Attention as the reference computes it, with one mistake.

#include <cstdint>

#include "backplane/reference/op_call.hpp"

namespace bp::mutants {

struct AttentionMistake {
  uint32_t sees_next = 0;             // positions after its own that a token sees
  uint32_t window_too_wide = 0;       // positions before its window
  bool interleaved_heads = false;     // query head h reads KV head h % n_kv_heads
  bool without_max = false;           // exp of the bare score
  bool table_of_first = false;        // every sequence reads by the block table of the first
  bool forgets_second_block = false;  // of each sequence
  bool hides_before_chunk = false;    // the last position of the chunk before
  bool multiplies_by_zero = false;    // what lies in the last block past the context
};

void attend_wrongly(const reference::OpCall& call, const bp_attr_attention& attributes,
                    const float* sinks, const AttentionMistake& mistake);

}  // namespace bp::mutants

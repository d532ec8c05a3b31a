#pragma once
// What kernels are given to read and write. Plain structs of device addresses.

#include <cstdint>

#include "backplane/dtype.h"

namespace bp::cuda {

// Rows of floats. Columns past the width are allocated up to a multiple of 8 and hold anything.
struct Rows {
  float* data = nullptr;
  uint32_t stride = 0;  // floats from a row to the next, a multiple of 8
};

// A weight in device memory: the blocks of its type, or their planes (formats/planes.hpp), rows
// from 16 to 16 bytes, zeros behind the last column of plain types up to a multiple of 8.
struct Matrix {
  const uint8_t* data = nullptr;
  const void* grid = nullptr;  // code book of the IQ types
  uint64_t row_bytes = 0;      // from a row to the next
  uint32_t n_columns = 0;
  bp_dtype dtype = BP_DTYPE_NONE;
};

inline constexpr uint32_t kMaxGroups = 8;    // of the KV cache
inline constexpr uint32_t kMaxOutputs = 16;  // of a program

// What is wanted of a row of logits, as in ext/device_sampling.h.
struct SampleRequest {
  double uniform;
  uint32_t output;  // of the program
  uint32_t row;     // of those that the batch asks of it
  uint32_t choice;
  int32_t token;
  uint32_t n_candidates, first_candidate;  // of all candidates of the step
  uint32_t top_k;
  float floor, scale;
};

// The batch. In device memory, before the arrays that it points to; one copy brings them all.
// Tokens that pad a step belong to sequence n_seqs, which never runs.
struct StepView {
  struct BlockTable {
    const int32_t* blocks;  // [n_seqs + 1, stride]
    uint64_t stride;
  };
  const int32_t* tokens;        // [n_tokens] in the vocabulary
  const int32_t* positions;     // [n_tokens]
  const uint32_t* sequence_of;  // [n_tokens]
  const uint32_t* query_start;  // [n_seqs + 2]
  const uint32_t* context_len;  // [n_seqs + 1]
  const uint32_t* is_running;   // [n_seqs + 1]
  const int32_t* state_in;      // [n_seqs]; null without state slots
  const int32_t* state_out;     // [n_seqs]
  BlockTable tables[kMaxGroups];
  const uint32_t* output_rows[kMaxOutputs];  // token indices that a program output asks for
  const SampleRequest* samples;              // [n_samples]
  uint32_t n_tokens;                         // without padding
  uint32_t n_seqs;
  uint32_t n_samples;
};

// K or V of one layer: [n_blocks, n_heads, block_size] rows of a head's values. q8_0 rows are the
// signed bytes, up to a multiple of 4, then a half scale for each 32 of them.
struct KvPlane {
  uint8_t* data = nullptr;
  uint32_t row_bytes = 0;  // a multiple of 16
  uint32_t head_dim = 0;
  uint32_t n_heads = 0;
  uint32_t block_size = 0;
  bp_dtype dtype = BP_DTYPE_NONE;
};

[[nodiscard]] constexpr uint32_t round_up(uint32_t n, uint32_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
[[nodiscard]] constexpr uint32_t divide_up(uint32_t n, uint32_t by) {
  return n / by + (n % by != 0 ? 1 : 0);
}

}  // namespace bp::cuda

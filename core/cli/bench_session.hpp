#pragma once
// Steps on an executable for `bench`: batches built by hand, without scheduler, sampler or text.

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/runtime/compiled_model.hpp"

namespace bp::cli {

class BenchSession {
 public:
  static constexpr uint32_t kChunk = 512;  // tokens of a prefill step

  // KV blocks that n_sequences of so many tokens take, the null block included.
  static uint64_t blocks_needed(const bp_memory_info& memory, uint32_t n_sequences,
                                uint32_t context);

  // `compiled` outlives the session and has KV memory of `n_blocks`, and state entries for every
  // sequence.
  BenchSession(const runtime::CompiledModel& compiled, uint32_t n_blocks);

  // Sequences of at most so many tokens; sequence s owns the s-th run of blocks. Their content
  // stays.
  void arrange(uint32_t n_sequences, uint32_t context);

  // Fills all blocks with zeros, so that no step measured is the first to touch memory.
  Status clear();
  // Tokens [first, first + n) of sequence 0, with the logits of the last one.
  Status prefill(uint32_t first, uint32_t n);
  // One token for each sequence at `position`, with its logits. With `fork`, first gives each of
  // them a copy of sequence 0's context.
  Status decode(uint32_t position, bool fork = false);

 private:
  std::vector<bp_block_op> copies_of_context(uint32_t n_tokens) const;
  Status step(std::span<const uint32_t> query_start, uint32_t position, bool logits,
              std::span<const bp_block_op> block_ops);

  const runtime::CompiledModel& compiled_;
  const uint32_t n_blocks_;
  uint32_t n_sequences_ = 0;
  uint32_t stride_ = 0;                // blocks of a sequence
  std::vector<int32_t> block_table_;   // [n_sequences, stride]
  std::vector<float> logits_;          // [n_sequences, n_vocab]
  std::minstd_rand random_{20260115};  // fixed: every run computes the same tokens
};

}  // namespace bp::cli

#pragma once
// The engine around the scheduler, as far as the simulator has one.

#include <cstdint>
#include <optional>

namespace bp::simulate {

struct Limits {
  uint32_t n_blocks = 2048;  // that sequences can have
  uint32_t block_size = 64;  // tokens
  uint32_t max_step_tokens = 512;
  uint32_t max_sequences = 64;  // of a step
  uint32_t max_queue = 256;     // that the scheduler is shown before their first step; 0: all
  uint32_t max_step_ms = 500;   // predicted time of a step
  bool prefix_cache = true;
};

struct LimitOverrides {
  std::optional<uint32_t> n_blocks, block_size, max_step_tokens, max_sequences, max_queue,
      max_step_ms;
  std::optional<bool> prefix_cache;

  void apply_to(Limits& limits) const {
    const auto set = [](auto& limit, const auto& value) { limit = value.value_or(limit); };
    set(limits.n_blocks, n_blocks);
    set(limits.block_size, block_size);
    set(limits.max_step_tokens, max_step_tokens);
    set(limits.max_sequences, max_sequences);
    set(limits.max_queue, max_queue);
    set(limits.max_step_ms, max_step_ms);
    set(limits.prefix_cache, prefix_cache);
  }
};

}  // namespace bp::simulate

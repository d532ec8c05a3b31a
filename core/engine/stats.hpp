#pragma once
// What an engine counts. The engine's thread writes, any thread reads, nobody waits.

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/engine/request.hpp"

namespace bp::engine {

// A counter or gauge with one writer.
class Count {
 public:
  void add(uint64_t n = 1) { set(get() + n); }
  void set(uint64_t n) { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A histogram with fixed buckets and one writer.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 20;

  // Upper bounds (inclusive), ascending, static storage; a last bucket holds what is beyond.
  explicit Histogram(std::span<const double> bounds);
  void observe(double value);

  struct Reading {
    std::span<const double> bounds;
    std::vector<uint64_t> counts;  // [bounds + 1], not cumulative
    double sum = 0;
  };
  [[nodiscard]] Reading read() const;

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

// Bounds in seconds and in tokens.
[[nodiscard]] std::span<const double> latency_bounds();
[[nodiscard]] std::span<const double> short_latency_bounds();
[[nodiscard]] std::span<const double> token_bounds();

struct Stats {
  // Per request.
  Histogram time_to_first_token_s{latency_bounds()};
  Histogram queue_time_s{latency_bounds()};
  Histogram prompt_tokens{token_bounds()};
  // Per choice.
  Histogram inter_token_latency_s{short_latency_bounds()};
  Histogram e2e_latency_s{latency_bounds()};
  Histogram prefill_time_s{latency_bounds()};
  Histogram decode_time_s{latency_bounds()};
  Histogram generation_tokens{token_bounds()};
  std::array<Count, 4> finished;  // by FinishReason
  // Per step.
  Histogram step_tokens{token_bounds()};
  Histogram step_s{short_latency_bounds()};

  Count steps;
  Count failed_steps;
  Count invalid_decisions;  // of the scheduler, replaced by first come, first served
  Count preemptions;
  Count prompt_tokens_total;  // computed or cached
  Count generation_tokens_total;
  Count prefix_cache_queries;  // tokens looked up
  Count prefix_cache_hits;     // tokens found
  Count swap_out_blocks;       // of preempted sequences, to host memory
  Count swap_out_bytes;
  Count swap_in_blocks;  // back
  Count swap_in_bytes;
  Count swap_refused;   // preempted sequences that found no room
  Count swap_failures;  // of the backend

  // Gauges.
  Count requests_running;  // choices that hold blocks
  Count requests_waiting;
  Count kv_blocks_used;    // held by sequences
  Count kv_blocks_cached;  // content kept, nobody's
  Count kv_blocks;         // that sequences can have
  Count kv_block_size;     // tokens
  Count swap_used_bytes;   // of host memory
};

}  // namespace bp::engine

#pragma once
// A backend whose "model" is a hash of the token history. The history is read back through the KV
// blocks, so that a wrong table, a missed copy or a stale block changes the answer.

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backplane/backend.hpp"

namespace bp::engine::testing {

// All tests hold with a step begun before the one before is collected, too.
[[nodiscard]] inline bool runs_ahead_by_default() {
  return std::getenv("ENGINE_TEST_RUNS_AHEAD") != nullptr;
}

struct FakeModel {
  uint32_t n_vocab = 300;
  uint32_t block_size = 4;
  bool has_state = false;  // the history's hash goes on in state entries, and must be the blocks'
  std::function<std::optional<int32_t>(std::span<const int32_t> history)> script;  // the next token
  bool runs_ahead = runs_ahead_by_default();      // two steps in flight, with tokens of the first
  uint32_t max_candidates = runs_ahead ? 64 : 0;  // of "bp.device-sampling/1"; 0: not offered
  std::atomic<int32_t> wrong_token{-1};           // what sampled rows answer, where not -1
  bool tells_greatest = true;                     // of rows of logits
  std::atomic<int32_t> wrong_greatest{-1};        // what it tells, where not -1
  std::atomic<int32_t> nan_token{-1};             // a history with it gives NaN
  std::atomic<int> fail_at{-1};                   // submits until one fails; -1: never
  std::atomic<int> fail_collect_at{-1};           // likewise of collects
  bp_status fail_status = BP_INTERNAL;            // BP_DEVICE_LOST allows no further call
  std::atomic<uint32_t> delay_us{0};              // per step; stop flags are polled meanwhile
  std::function<void()> before_step;              // on the engine's thread
  bool transfers = false;                         // offers "bp.kv-transfer/1"
  std::atomic<int> fail_export_at{-1}, fail_import_at{-1};  // likewise of transfers
  std::atomic<uint32_t> transfer_delay_us{0};               // of each

  // What was observed.
  std::atomic<uint32_t> n_steps{0};
  std::atomic<uint32_t> n_steps_ahead{0};  // submitted while another was in flight
  std::atomic<uint32_t> max_rows{0}, max_tokens{0}, max_sequences{0};
  std::atomic<uint32_t> n_copies{0};
  std::atomic<uint32_t> n_rows_given{0};    // as logits
  std::atomic<uint32_t> n_rows_sampled{0};  // without them
  std::atomic<uint32_t> n_states_in_place{0}, n_states_shared{0};
  std::atomic<uint64_t> n_computed_tokens{0};
  [[nodiscard]] std::string violation() const {
    const std::scoped_lock lock(mutex);
    return first_violation;
  }
  void violate(const std::string& sentence) {
    const std::scoped_lock lock(mutex);
    if (first_violation.empty()) first_violation = sentence;
  }

  // [n_vocab] of the next token.
  [[nodiscard]] std::vector<float> logits(std::span<const int32_t> history) const;

  mutable std::mutex mutex;
  std::string first_violation;
};

// `model` goes to create as the parameter "model", its address.
const bp_backend_factory* fake_backend_factory();

}  // namespace bp::engine::testing

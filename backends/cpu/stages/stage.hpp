#pragma once
// A stage: work of a step that all workers do together. The executable puts a barrier after each.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "backends/cpu/threads/team.hpp"
#include "backplane/batch.h"

namespace bp::cpu {

// A value: rows of floats, [n_rows, stride].
struct RowsView {
  float* data = nullptr;
  size_t stride = 0;
  [[nodiscard]] float* row(size_t r) const { return data + r * stride; }
};

// What all workers see of the running step.
struct StepContext {
  const bp_batch* batch = nullptr;
  const Kernels* kernels = nullptr;
  KvCache* kv = nullptr;
  std::span<const RowsView> values;                    // by buffer index of the plan
  std::span<const uint32_t> sequence_of;               // [n_tokens]
  std::span<const std::span<const uint32_t>> outputs;  // token indices wanted of each output
  uint8_t* shared = nullptr;                           // the stage's shared memory
  std::atomic<uint64_t>* next_item = nullptr;          // the stage's counter, 0 at its start
  std::span<const uint8_t> running;                    // [n_seqs] 0: skip the sequence

  [[nodiscard]] uint32_t n_rows(uint32_t rows, uint32_t output) const {
    return rows == BP_ROWS_TOKENS ? batch->n_tokens : static_cast<uint32_t>(outputs[output].size());
  }
};

struct Range {
  uint32_t begin, end;
};

// One thread of the team during a step.
struct Worker {
  uint32_t index;
  uint32_t n;
  uint8_t* scratch;  // its own memory, aligned to 64
  const Team* team;
  bp_team* running_team;

  void barrier() const { team->barrier(running_team); }
  // This worker's share of n things in order.
  [[nodiscard]] Range share(uint32_t n_things) const {
    const auto cut = [&](uint64_t i) { return static_cast<uint32_t>(i * n_things / n); };
    return {cut(index), cut(index + 1)};
  }
};

struct StageLimits {
  uint32_t max_tokens;
  uint32_t max_output_rows;
  const Kernels* kernels;
  [[nodiscard]] uint32_t max_rows(uint32_t rows) const {
    return rows == BP_ROWS_TOKENS ? max_tokens : max_output_rows;
  }
};

class Stage {
 public:
  virtual ~Stage() = default;
  virtual void run(const StepContext& step, const Worker& worker) const = 0;

  // Memory that a worker, and all workers together, need while the stage runs.
  [[nodiscard]] virtual size_t scratch_bytes(const StageLimits&) const { return 0; }
  [[nodiscard]] virtual size_t shared_bytes(const StageLimits&) const { return 0; }

  // Buffers it reads and writes, for their lifetimes.
  std::vector<uint32_t> reads;
  std::vector<uint32_t> writes;
};

// Which rows a value has; BP_ROWS_* and the output's index.
struct RowCount {
  uint32_t rows = BP_ROWS_TOKENS;
  uint32_t output = 0;
  [[nodiscard]] uint32_t of(const StepContext& step) const { return step.n_rows(rows, output); }
};

}  // namespace bp::cpu

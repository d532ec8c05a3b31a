#pragma once
// A stage: work of a step, in phases of items that workers take. A phase begins when the items of
// the one before are complete.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "backends/cpu/state_cache.hpp"
#include "backends/cpu/threads/work_shares.hpp"
#include "backplane/batch.h"

namespace bp::cpu {

class RowPeaks;

// A value: rows of floats, [n_rows, stride].
struct RowsView {
  float* data = nullptr;
  size_t stride = 0;
  RowPeaks* peaks = nullptr;  // of a program output whose writer may note its greatest values
  [[nodiscard]] float* row(size_t r) const { return data + r * stride; }
};

// What all workers see of the running step.
struct StepContext {
  const bp_batch* batch = nullptr;
  const Kernels* kernels = nullptr;
  KvCache* kv = nullptr;
  StateCache* states = nullptr;
  std::span<const RowsView> values;                    // by buffer index of the plan
  std::span<const uint32_t> sequence_of;               // [n_tokens]
  std::span<const std::span<const uint32_t>> outputs;  // token indices wanted of each output
  uint8_t* shared = nullptr;                           // the stage's shared memory
  std::span<const uint8_t> running;                    // [n_seqs] 0: skip the sequence
  uint32_t n_workers = 1;
  uint32_t round = 0;  // how often phases have been repeated; items alone may read it
  bool weights_are_streamed = false;  // mapped ones do not all fit into memory

  [[nodiscard]] uint32_t n_rows(uint32_t rows, uint32_t output) const {
    return rows == BP_ROWS_TOKENS ? batch->n_tokens : static_cast<uint32_t>(outputs[output].size());
  }
};

struct Range {
  uint32_t begin, end;
  bool operator==(const Range&) const = default;
};

// Part i of n things cut into n_parts.
[[nodiscard]] inline Range part_of(uint32_t i, uint32_t n_parts, uint32_t n) {
  const auto cut = [&](uint64_t k) { return static_cast<uint32_t>(k * n / n_parts); };
  return {cut(i), cut(i + 1)};
}

// Rows of each part but the last where n are cut into as few parts of at most `most` as can be, of
// whole units alike; most is a multiple of unit.
[[nodiscard]] constexpr uint32_t even_part(uint32_t n, uint32_t most, uint32_t unit) {
  const uint32_t n_parts = std::max((n + most - 1) / most, 1u);
  return std::max((n + n_parts * unit - 1) / (n_parts * unit), 1u) * unit;
}

// Which rows a value has; BP_ROWS_* and the output's index. Of many rows a pass takes a part, so
// that what lies between two stages need not be held for all of them at once.
struct RowCount {
  uint32_t rows = BP_ROWS_TOKENS;
  uint32_t output = 0;
  uint32_t pass = 0;
  uint32_t most = ~0u;  // rows of a pass, a multiple of kUnit; ~0: one pass takes all

  static constexpr uint32_t kUnit = 48;  // whole panels of all kernels

  [[nodiscard]] Range range(const StepContext& step) const {
    const uint32_t n = step.n_rows(rows, output);
    if (n <= most) return pass == 0 ? Range{0, n} : Range{n, n};
    const uint32_t of_pass = even_part(n, most, kUnit);
    return {std::min(n, pass * of_pass), std::min(n, (pass + 1) * of_pass)};
  }
  [[nodiscard]] uint32_t of(const StepContext& step) const {
    const Range own = range(step);
    return own.end - own.begin;
  }
};

// One thread of the team during a step.
struct Worker {
  uint32_t index;
  uint8_t* scratch;  // its own memory, aligned to 64
};

struct PhaseItems {
  uint32_t n = 0;         // at most WorkShares::kMaxItems; 0: the phase is left out
  bool in_order = false;  // the first items are the longest
  // Once they are complete the phase before and this one come again, in the next round.
  bool repeats = false;
};

struct StageLimits {
  uint32_t max_tokens;
  uint32_t max_output_rows;
  const Kernels* kernels;
  uint32_t n_workers = 1;
  [[nodiscard]] uint32_t max_rows(const RowCount& count) const {
    return std::min(count.most, count.rows == BP_ROWS_TOKENS ? max_tokens : max_output_rows);
  }
};

class Stage {
 public:
  static constexpr uint32_t kPhases = 4;

  virtual ~Stage() = default;

  // What one worker does before a phase, while the others wait.
  virtual void begin(const StepContext&, uint32_t /*phase*/) const {}
  // Of the phases in order, each asked for when it has begun.
  [[nodiscard]] virtual PhaseItems items(const StepContext& step, uint32_t phase) const = 0;
  // Takes items of the phase until none is left. A worker may come when the phase is over: before
  // it has an item it reads nothing that a step changes.
  virtual void run(const StepContext& step, const Worker& worker, uint32_t phase,
                   Items& items) const = 0;

  // Memory that a worker, and all workers together, need while the stage runs.
  [[nodiscard]] virtual size_t scratch_bytes(const StageLimits&) const { return 0; }
  [[nodiscard]] virtual size_t shared_bytes(const StageLimits&) const { return 0; }

  // Buffers it reads and writes, for their lifetimes.
  std::vector<uint32_t> reads;
  std::vector<uint32_t> writes;
};

}  // namespace bp::cpu

#pragma once
// A compiled program: stages in order, and the buffers they work on.

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/stages/stage.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backends/cpu/weights/weight_stream.hpp"
#include "backplane/overrides.hpp"

namespace bp::cpu {

// Rows of floats that live from the stage that writes them to the last that reads them.
struct Buffer {
  RowCount count;
  uint32_t width = 0;
  bool is_output = false;  // read after the last stage
  size_t offset = 0;       // in the workspace, by lay_out_buffers
  [[nodiscard]] size_t stride() const { return (size_t{width} + 15) / 16 * 16; }
  [[nodiscard]] size_t bytes(const StageLimits& limits) const {
    return limits.max_rows(count) * stride() * sizeof(float);
  }
};

// Where a program output is found after the last stage.
struct PlanOutput {
  uint32_t buffer = 0;
  uint32_t writer = 0;     // stage
  bool is_direct = false;  // one stage may write it where the host wants it
};

struct Plan {
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<Buffer> buffers;
  std::vector<PlanOutput> outputs;     // of the program
  std::vector<uint32_t> vocabularies;  // rows of the tables that token ids index
  std::vector<uint32_t> positions;     // positions of the tables that positions index

  // In the order of their use, with the first stage and the last that may read them, and whether it
  // reads only those that rows choose.
  std::vector<std::shared_ptr<PreparedWeight>> weights;
  std::vector<uint32_t> weight_stages;
  std::vector<uint32_t> weight_last_stages;
  std::vector<bool> weight_is_chosen;
  std::vector<WeightRows> tables;                            // looked up row by row where they are
  std::vector<std::unique_ptr<std::vector<float>>> vectors;  // norms, biases, frequencies
  std::shared_ptr<KernelFailure> kernel_failure;  // of other plugins' kernels; null without them

  [[nodiscard]] uint64_t weights_bytes() const;  // of our own
  [[nodiscard]] std::vector<WeightStream::Use> mapped_weights() const;
  [[nodiscard]] size_t scratch_bytes(const StageLimits& limits) const;  // of a worker
  [[nodiscard]] size_t shared_bytes(const StageLimits& limits) const;
};

// Most steps put out so few rows: what more of them would take is left untouched till then.
inline constexpr uint32_t kFewOutputRows = 4;

// Gives every buffer an offset such that buffers in use together do not overlap; returns the bytes
// they take.
size_t lay_out_buffers(Plan& plan, const StageLimits& limits);

// Of the workspace, what steps within these limits write to in buffers; ascending and apart.
struct ByteRange {
  size_t begin;
  size_t end;
};
std::vector<ByteRange> written_ranges(const Plan& plan, const StageLimits& limits);

}  // namespace bp::cpu

#pragma once
// A compiled program: launches in order, and the buffers they work on.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/kernels/views.hpp"
#include "backends/cuda/kv_cache.hpp"
#include "backends/cuda/state_cache.hpp"
#include "backends/cuda/weights/weight_store.hpp"

namespace bp::cuda {

// What launches are sized by: the rows that a step computes, padding included; or the most there
// may be.
struct StepShape {
  uint32_t n_tokens = 0;
  uint32_t n_seqs = 0;
  std::array<uint32_t, kMaxOutputs> n_output_rows{};
  uint32_t n_samples = 0;  // rows of all outputs that a token is chosen from
  uint32_t longest_context = 0;
  bool is_decode = false;  // no sequence has more than one token
};

// Rows of floats that live from the stage that writes them first to the one that reads them last.
struct Buffer {
  uint32_t rows = 0;    // BP_ROWS_*
  uint32_t output = 0;  // program output, where rows is BP_ROWS_OUTPUT
  uint32_t width = 0;
  uint32_t first_stage = ~0u, last_stage = 0;
  size_t offset = 0;       // in the workspace, by lay_out
  uint64_t own_bytes = 0;  // instead of rows

  [[nodiscard]] uint32_t stride() const { return round_up(width, 8); }
  [[nodiscard]] uint32_t n_rows(const StepShape& shape) const;
  [[nodiscard]] size_t n_bytes(const StepShape& shape) const;
};

// What a stage is run with.
struct StageContext {
  Stream& stream;
  MatrixLibrary* library;  // null where the device has none
  const std::vector<Buffer>& buffers;
  uint8_t* workspace;
  const StepView* step;  // in device memory
  const KvCache& kv;
  const StateCache& states;
  StepShape shape;

  [[nodiscard]] Rows rows(uint32_t buffer) const {
    return {reinterpret_cast<float*>(workspace + buffers[buffer].offset), buffers[buffer].stride()};
  }
  [[nodiscard]] uint8_t* bytes(uint32_t buffer) const { return workspace + buffers[buffer].offset; }
  [[nodiscard]] uint32_t n_rows(uint32_t buffer) const { return buffers[buffer].n_rows(shape); }
};

using Enqueue = std::function<Status(const StageContext&)>;

struct Stage {
  std::string op;  // op "layers.3.mlp" (gated_mlp)
  Enqueue enqueue;
};

struct Plan {
  std::vector<Stage> stages;
  std::vector<Buffer> buffers;
  std::vector<uint32_t> outputs;       // buffers of the program's outputs
  std::vector<uint32_t> vocabularies;  // rows of the tables that token ids index
  std::vector<uint32_t> positions;     // positions of the tables that positions index
  DeviceWeights weights;

  // Launches all stages. An error names the op.
  Status enqueue(const StageContext& context) const;
  [[nodiscard]] uint64_t weights_bytes() const;
};

// Gives every buffer an offset such that buffers in use together do not overlap; returns the bytes
// of the workspace.
[[nodiscard]] size_t lay_out(std::vector<Buffer>& buffers, const StepShape& most);

}  // namespace bp::cuda

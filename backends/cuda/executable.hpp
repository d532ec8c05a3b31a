#pragma once
// A compiled program and the memory to run it. submit starts a step, collect waits for it.

#include <memory>
#include <vector>

#include "backends/cuda/block_transfer.hpp"
#include "backends/cuda/device/matrix_library.hpp"
#include "backends/cuda/kv_cache.hpp"
#include "backends/cuda/plan/plan.hpp"
#include "backends/cuda/sampling.hpp"
#include "backends/cuda/step_arena.hpp"
#include "backends/cuda/step_graphs.hpp"
#include "backplane/backend.hpp"
#include "backplane/program_view.hpp"

namespace bp::cuda {

struct Settings {
  double memory_share = 0.9;  // of what is free, that kv_allocate may be told of
  bool uses_graphs = true;
  bool waits_after_each_op = false;  // so that an error names its op; without graphs
};

class CudaExecutable : public Executable {
 public:
  CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<const ProgramView> program,
                 const bp_compile_options& options, const Settings& settings, KvCache kv);
  ~CudaExecutable() override;

  [[nodiscard]] static StepShape largest_shape(const bp_compile_options& options);

  // Takes the plan, its weights placed, and all memory of a step.
  Status prepare(Plan plan);

  Status memory(bp_memory_info& out) override;
  Status kv_allocate(std::span<const uint32_t> n_blocks) override;
  Status warm_up(const Progress& progress) override;
  Status submit(const bp_batch& batch, uint64_t& ticket) override;
  Status collect(uint64_t ticket) override;
  Status prepare_transfer(bp_kv_image_info& out) override;
  Status export_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<uint8_t> images) override;
  Status import_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<const uint8_t> images) override;

 private:
  // A step between submit and collect. The batch's memory is the host's until collect.
  struct InFlight {
    uint64_t ticket = 0;
    bp_batch batch{};
    bool is_computed = false;  // some sequence ran
  };

  Status validate(const bp_batch& batch) const;
  [[nodiscard]] static StepShape shape_of(const bp_batch& batch);
  [[nodiscard]] StageContext context_of(const StepShape& shape);
  bool begin_sequences(const bp_batch& batch);
  void poll_stop(const bp_batch& batch);
  Status compute(const bp_batch& batch);
  Status run_stages(const StageContext& context);
  Status bring_outputs(const bp_batch& batch, const StageContext& context);
  Status bring_rows(const bp_output& output, const float* from, uint8_t*& to);
  void hand_over(const bp_batch& batch) const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<const ProgramView> program_;
  bp_compile_options options_;
  Settings settings_;
  KvCache kv_;
  StateCache states_;
  BlockTransfer transfer_;
  Plan plan_;
  Memory workspace_;
  Memory outputs_;   // pinned: rows of each output in the order of the batch's outputs
  Memory gathered_;  // chosen rows of outputs that every token has
  RowSampler sampler_;
  StepArena arena_;
  StepGraphs graphs_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<MatrixLibrary> library_;  // null where the device has none
  std::unique_ptr<Event> is_done_;
  std::vector<uint64_t> output_widths_;
  std::vector<uint32_t> sequence_of_;  // of tokens
  std::vector<uint8_t> is_running_;    // of sequences
  InFlight in_flight_;
  uint64_t last_ticket_ = 0;
};

}  // namespace bp::cuda

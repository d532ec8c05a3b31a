#pragma once
// A compiled program and the memory to run it. submit starts a step, collect waits for it; a step
// may be submitted while the one before it is in flight.

#include <array>
#include <memory>
#include <vector>

#include "backends/cuda/block_transfer.hpp"
#include "backends/cuda/device/matrix_library.hpp"
#include "backends/cuda/in_flight.hpp"
#include "backends/cuda/kv_cache.hpp"
#include "backends/cuda/plan/plan.hpp"
#include "backends/cuda/sampling.hpp"
#include "backends/cuda/step_arena.hpp"
#include "backends/cuda/step_graphs.hpp"
#include "backends/cuda/step_outputs.hpp"
#include "backplane/backend.hpp"
#include "backplane/plugin.hpp"
#include "backplane/program_view.hpp"

namespace bp::cuda {

struct Settings {
  double memory_share = 0.9;  // of what is free, that kv_allocate may be told of
  bool uses_graphs = true;
  bool waits_after_each_op = false;  // so that an error names its op; without graphs
  bool times_steps = false;          // and logs what the device took for each
};

class CudaExecutable : public Executable {
 public:
  CudaExecutable(const Host& host, std::shared_ptr<Device> device,
                 std::shared_ptr<const ProgramView> program, const bp_compile_options& options,
                 const Settings& settings, KvCache kv);
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
  Status prepare_host_memory();
  Status validate(const bp_batch& batch) const;
  [[nodiscard]] InFlight& step_of(uint64_t ticket) { return in_flight_[ticket % kMaxInFlight]; }
  [[nodiscard]] static StepShape shape_of(const bp_batch& batch);
  [[nodiscard]] StageContext context_of(const StepShape& shape);
  Status load_kernels();
  Status rehearse(const StepShape& shape);
  [[nodiscard]] bool begin_sequences(InFlight& step) const;
  static void poll_stop(const bp_batch& batch);
  void fail_unknown(const bp_batch& batch) const;
  Status log_time(const InFlight& step, uint64_t ticket) const;
  Status enqueue(InFlight& step);
  [[nodiscard]] Status failed_in_flight(const Status& status, uint64_t ticket) const;
  Status compute(const InFlight& step);
  Status run_stages(const StageContext& context);

  Host host_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<const ProgramView> program_;
  bp_compile_options options_;
  Settings settings_;
  KvCache kv_;
  StateCache states_;
  BlockTransfer transfer_;
  Plan plan_;
  Memory workspace_;
  uint32_t n_ids_ = ~0u, n_positions_ = ~0u;  // that every table of the program has
  StepOutputs outputs_;
  RowSampler sampler_;
  StepArena arena_;
  std::vector<StepShape> rehearsed_;  // by warm_up: between them they take every kernel
  StepGraphs graphs_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<MatrixLibrary> library_;        // null where the device has none
  std::array<InFlight, kMaxInFlight> in_flight_;  // by step_of
  uint64_t last_ticket_ = 0, last_collected_ = 0;
  bool is_half_enqueued_ = false;     // the step submitted last
  std::vector<uint8_t> chosen_rows_;  // list_chosen_rows of it
  std::vector<int32_t> chosen_;       // from the rows of the step collected last; -1: no token
};

}  // namespace bp::cuda

#pragma once
// The interpreter: runs a program op by op in float32. A base class for plugin authors, who
// override run_op for the ops they do better.

#include <string>
#include <vector>

#include "backplane/backend.hpp"
#include "backplane/ext/device_sampling.h"
#include "backplane/kv_images.hpp"
#include "backplane/program_view.hpp"
#include "backplane/reference/kernel_places.hpp"
#include "backplane/reference/kv_cache.hpp"
#include "backplane/reference/op_call.hpp"
#include "backplane/reference/state_cache.hpp"
#include "backplane/reference/weight_store.hpp"
#include "backplane/reference/workers.hpp"
#include "backplane/single_step.hpp"

namespace bp::reference {

inline constexpr uint32_t kMaxCandidates = 256;  // of "bp.device-sampling/1"

struct Settings {
  CacheWeights cache_weights = CacheWeights::kAuto;
};

class ReferenceExecutable : public Executable {
 public:
  // The program has passed check and outlives this.
  ReferenceExecutable(const Host& host, const bp_program& program,
                      const bp_compile_options& options);

  // Decodes weights as the settings say; before everything else.
  Status prepare(const Settings& settings, const Progress& progress);
  // Prepares the kernels of the options' overrides; before the first step.
  Status bind_kernels(const bp_compile_options& options);

  Status memory(bp_memory_info& out) override;
  Status kv_allocate(std::span<const uint32_t> n_blocks) override;
  Status submit(const bp_batch& batch, uint64_t& ticket) override;
  Status collect(uint64_t ticket) override;

  // transfer.cpp
  Status prepare_transfer(bp_kv_image_info& out) override;
  Status export_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<uint8_t> images) override;
  Status import_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<const uint8_t> images) override;

 protected:
  // Fills the op's outputs. Inputs and outputs never share memory. Not called for an op that the
  // configuration's overrides compute part of.
  virtual Status run_op(const OpCall& call);
  // What "bp.device-sampling/1" asks of a row of an output.
  virtual bp_row_result sample(std::span<const float> row, const bp_row_request& request);

  [[nodiscard]] const ProgramView& program() const { return program_; }
  [[nodiscard]] const WeightStore& weights() const { return weights_; }

 private:
  static Status interpret(const OpCall& call);
  [[nodiscard]] Status validate(const bp_batch& batch) const;
  void take_chosen(bp_batch& batch);
  Status run_ops(Step& step);
  void apply(const bp_block_op& op);
  [[nodiscard]] uint64_t n_rows_of(const bp_value& value, const Step& step) const;
  [[nodiscard]] std::vector<float> take_buffer();
  void open_outputs(const bp_op& op, const Step& step);
  void close_dead_values(uint32_t op);
  void write_outputs(const Step& step);
  void write_output(const bp_output& output, const Step& step, std::vector<int32_t>& chosen);
  void close_all();
  [[nodiscard]] uint64_t workspace_bytes() const;

  ProgramView program_;
  bp_compile_options options_;
  WeightStore weights_;
  KernelPlaces kernels_;
  Workers workers_;
  KvCache kv_;
  StateCache states_;
  KvImages images_;
  std::vector<uint32_t> n_ids_;  // of each group, once allocated

  std::vector<uint64_t> output_widths_;
  std::vector<uint32_t> last_use_;           // op that reads a value last; n_ops for outputs
  std::vector<Matrix> values_;               // of the step
  std::vector<std::vector<float>> buffers_;  // behind values_
  std::vector<std::vector<float>> free_buffers_;
  std::vector<int32_t> tokens_;       // of the step, where ids name the step before
  std::vector<uint8_t> chosen_rows_;  // list_chosen_rows of the step before
  std::vector<int32_t> chosen_;       // from each of these rows; -1: no token came of it
  SingleStep in_flight_;
};

}  // namespace bp::reference

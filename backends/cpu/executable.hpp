#pragma once
// A compiled program and the memory to run it. submit runs the whole step.

#include <memory>
#include <vector>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/kv_cache.hpp"
#include "backends/cpu/plan/plan.hpp"
#include "backends/cpu/state_cache.hpp"
#include "backends/cpu/threads/team.hpp"
#include "backends/cpu/threads/work_shares.hpp"
#include "backends/cpu/weights/weight_stream.hpp"
#include "backplane/backend.hpp"
#include "backplane/kv_images.hpp"
#include "backplane/program_view.hpp"
#include "backplane/single_step.hpp"

namespace bp::cpu {

class Step;

class CpuExecutable : public Executable {
 public:
  CpuExecutable(std::shared_ptr<const ProgramView> program, const bp_compile_options& options,
                std::shared_ptr<const Team> team, const Kernels& kernels, KvCache kv);

  // Takes the plan, its weights placed, and allocates the workspace. Of weights that stay in files,
  // resident_bytes are kept in memory; streamed_file, null or of this executable alone, is where
  // others may be read past the system's cache.
  Status prepare(Plan plan, uint64_t resident_bytes,
                 const std::shared_ptr<const MappedFile>& streamed_file);

  Status memory(bp_memory_info& out) override;
  Status kv_allocate(std::span<const uint32_t> n_blocks) override;
  Status warm_up(const Progress& progress) override;
  Status submit(const bp_batch& batch, uint64_t& ticket) override;
  Status collect(uint64_t ticket) override;

  // transfer.cpp
  Status prepare_transfer(bp_kv_image_info& out) override;
  Status export_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<uint8_t> images) override;
  Status import_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<const uint8_t> images) override;

 private:
  friend class Step;

  [[nodiscard]] StageLimits limits() const;  // of any step
  [[nodiscard]] std::vector<ByteRange> first_written() const;
  // Workspace: what stages share, the workers' scratch, then the buffers, whose end few steps
  // reach.
  [[nodiscard]] uint8_t* shared() const { return workspace_.data(); }
  [[nodiscard]] uint8_t* scratch(uint32_t worker) const {
    return shared() + shared_bytes_ + worker * scratch_bytes_;
  }
  [[nodiscard]] uint8_t* buffers() const { return workspace_.data() + buffers_begin_; }

  std::shared_ptr<const ProgramView> program_;
  bp_compile_options options_;
  uint32_t n_threads_;
  std::shared_ptr<const Team> team_;
  const Kernels& kernels_;
  KvCache kv_;
  StateCache states_;
  KvImages images_;
  std::vector<uint32_t> n_ids_;  // of each group, once allocated
  Plan plan_;
  WeightStream stream_;
  AlignedBuffer workspace_;
  size_t shared_bytes_ = 0;
  size_t scratch_bytes_ = 0;  // of a worker
  size_t buffers_begin_ = 0;
  WorkShares shares_;
  SingleStep in_flight_;
};

}  // namespace bp::cpu

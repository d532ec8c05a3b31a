#pragma once
// The reference's executable with one mistake in its ops or its steps.

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backplane/reference/executable.hpp"

namespace bp::mutants {

// Takes memory and forgets it.
void leak();

class MutantExecutable final : public reference::ReferenceExecutable {
 public:
  MutantExecutable(const Host& host, const bp_program& program, const bp_compile_options& options,
                   std::string mutation);

  Status kv_allocate(std::span<const uint32_t> n_blocks) override;
  Status submit(const bp_batch& batch, uint64_t& ticket) override;
  Status export_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<uint8_t> images) override;
  Status import_blocks(uint32_t group, std::span<const int32_t> blocks,
                       std::span<const uint8_t> images) override;
  [[nodiscard]] const std::string& mutation() const { return mutation_; }

 protected:
  Status run_op(const reference::OpCall& call) override;
  bp_row_result sample(std::span<const float> row, const bp_row_request& request) override;

 private:
  using Base = reference::ReferenceExecutable;

  [[nodiscard]] bool is(std::string_view mutation) const { return mutation_ == mutation; }
  [[nodiscard]] uint64_t width_of(const bp_output& output) const;

  Status submit_without(uint32_t block_action, bp_batch batch, uint64_t& ticket);
  Status submit_reversing_block_ops(bp_batch batch, uint64_t& ticket);
  Status submit_then_block_ops(bp_batch batch, uint64_t& ticket);
  Status submit_first_output(bp_batch batch, uint64_t& ticket);
  Status submit_known_blocks(bp_batch batch, uint64_t& ticket);
  Status submit_fewer_rows(bp_batch batch, uint64_t& ticket);
  Status submit_with_ids(bp_batch batch, uint64_t& ticket, int32_t (*change)(int32_t id));
  Status submit_whole_vectors(const bp_batch& batch, uint64_t& ticket);
  Status submit_keeping_status(const bp_batch& batch, uint64_t& ticket);
  Status clear_block(uint32_t group, int32_t block);
  void tell_greatest_of_half(const bp_batch& batch) const;
  void write_past_rows(const bp_batch& batch) const;
  static void fail_all_beside_failed(const bp_batch& batch);
  [[nodiscard]] bool has_nan(const bp_batch& batch) const;

  std::string mutation_;
  int32_t n_blocks_ = 0;
  uint64_t last_ticket_ = 0;
  std::thread::id creator_ = std::this_thread::get_id();
};

}  // namespace bp::mutants

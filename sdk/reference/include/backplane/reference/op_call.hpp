#pragma once
// What an op sees while a step runs: its inputs, outputs and weights, and the tokens of the batch.

#include <optional>
#include <span>
#include <vector>

#include "backplane/batch.h"
#include "backplane/program_view.hpp"
#include "backplane/reference/kernel_places.hpp"
#include "backplane/reference/kv_cache.hpp"
#include "backplane/reference/matrix.hpp"
#include "backplane/reference/state_cache.hpp"
#include "backplane/reference/weight_store.hpp"
#include "backplane/reference/workers.hpp"

namespace bp::reference {

// A batch while it is executed.
class Step {
 public:
  Step(const bp_batch& batch, const ProgramView& program, KvCache& kv, StateCache& states,
       const Workers& workers);

  [[nodiscard]] const bp_batch& batch() const { return batch_; }
  [[nodiscard]] KvCache& kv() const { return kv_; }
  [[nodiscard]] StateCache& states() const { return states_; }
  [[nodiscard]] const Workers& workers() const { return workers_; }
  [[nodiscard]] uint32_t sequence_of(uint64_t token) const { return sequence_of_[token]; }
  [[nodiscard]] bool is_running(uint32_t sequence) const {
    return batch_.seq_status[sequence] == BP_SEQ_OK;
  }
  [[nodiscard]] bool any_running() const;
  // Its outputs are not written, the other sequences go on.
  void fail(uint32_t sequence) { batch_.seq_status[sequence] = BP_SEQ_FAILED; }
  // Marks the sequences that the host has stopped.
  void poll_stop();

  // The token indices that the batch asks of a program output.
  [[nodiscard]] std::span<const uint32_t> rows_of_output(uint32_t output) const;
  // The block of group `group` that holds a position of a sequence.
  [[nodiscard]] uint64_t block_of(uint32_t group, uint32_t sequence, uint64_t position) const;

 private:
  const bp_batch& batch_;
  KvCache& kv_;
  StateCache& states_;
  const Workers& workers_;
  std::vector<uint32_t> sequence_of_;                   // [n_tokens]
  std::vector<std::span<const uint32_t>> output_rows_;  // of each program output
};

// One op of one step; slots are in the order of the op's schema.
class OpCall {
 public:
  OpCall(const bp_op& op, const ProgramView& program, const WeightStore& weights,
         const KernelPlaces& kernels, const std::vector<Matrix>& values, Step& step)
      : op_(op),
        program_(program),
        weights_(weights),
        kernels_(kernels),
        values_(values),
        step_(step) {}

  [[nodiscard]] const bp_op& op() const { return op_; }
  [[nodiscard]] std::string_view kind() const { return op_.kind; }
  [[nodiscard]] const ProgramView& program() const { return program_; }
  [[nodiscard]] Step& step() const { return step_; }
  template <class A>
  [[nodiscard]] A attributes() const {
    return attributes_of<A>(op_);
  }

  [[nodiscard]] bool has_input(uint32_t i) const { return slot_at(input_slots(op_), i) != BP_NONE; }
  [[nodiscard]] bool has_output(uint32_t i) const {
    return slot_at(output_slots(op_), i) != BP_NONE;
  }
  [[nodiscard]] Matrix input(uint32_t i) const { return values_[op_.inputs[i]]; }
  [[nodiscard]] Matrix output(uint32_t i) const { return values_[op_.outputs[i]]; }
  // nullptr for an absent one.
  [[nodiscard]] const WeightRows* weight(uint32_t i) const {
    const uint32_t w = slot_at(weight_slots(op_), i);
    return w == BP_NONE ? nullptr : &weights_[w];
  }
  // What computes a place of this op instead of the interpreter, or nullptr.
  [[nodiscard]] const BoundKernel* kernel(Place place) const { return kernels_.find(op_, place); }
  // All values of a weight of one dimension; nullptr for an absent one.
  [[nodiscard]] const float* vector(uint32_t i) const {
    const WeightRows* rows = weight(i);
    return rows == nullptr ? nullptr : rows->row(0, nullptr);
  }

 private:
  const bp_op& op_;
  const ProgramView& program_;
  const WeightStore& weights_;
  const KernelPlaces& kernels_;
  const std::vector<Matrix>& values_;  // of the program; token ids and dead values have no data
  Step& step_;
};

}  // namespace bp::reference

#pragma once
// Makes the plan: each op of the program becomes stages, by the function of its kind.

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "backends/cuda/plan/head_chain.hpp"
#include "backends/cuda/plan/plan.hpp"
#include "backplane/program_view.hpp"

namespace bp::cuda {

inline constexpr uint32_t kNoBuffer = ~0u;

class Planner {
 public:
  // most bounds the rows of a step.
  Planner(const ProgramView& program, WeightStore& store, const DeviceInfo& device,
          const StepShape& most);

  // The program has passed check.
  Result<Plan> run();

  // ---- for the functions that plan one op; slots are in the order of its schema ----
  [[nodiscard]] const ProgramView& program() const { return program_; }
  template <class A>
  [[nodiscard]] A attributes() const {
    return attributes_of<A>(*op_);
  }
  [[nodiscard]] bool has_input(uint32_t i) const;
  [[nodiscard]] bool has_output(uint32_t i) const;
  [[nodiscard]] bool has_weight(uint32_t i) const;
  // Buffers.
  [[nodiscard]] uint32_t input(uint32_t i);
  [[nodiscard]] uint32_t output(uint32_t i);
  [[nodiscard]] uint32_t temporary(uint32_t rows_as_buffer, uint32_t width);
  [[nodiscard]] uint32_t own_bytes(uint64_t n_bytes);
  // Bytes that one stage needs to itself, one buffer for each purpose of an op; kNoBuffer for 0.
  enum class Purpose : uint64_t { kPartials, kSlice };
  [[nodiscard]] uint32_t scratch(Purpose purpose, uint64_t n_bytes);
  [[nodiscard]] uint32_t width(uint32_t buffer) const { return plan_.buffers[buffer].width; }
  [[nodiscard]] uint32_t most_rows(uint32_t buffer) const {
    return plan_.buffers[buffer].n_rows(most_);
  }
  [[nodiscard]] const StepShape& most() const { return most_; }
  [[nodiscard]] const DeviceInfo& device() const { return device_; }
  // That this op is a part of, or null.
  [[nodiscard]] const HeadChain* head_chain() const;
  // The buffer of a value of any op.
  [[nodiscard]] uint32_t buffer_of(uint32_t value) { return use(buffer_of_value_[value]); }
  // Weights as they are in the file, or as floats. The pointers live as long as the plan.
  [[nodiscard]] const DeviceWeight* matrix(uint32_t i);
  [[nodiscard]] const DeviceWeight* floats(uint32_t i);  // null where the slot is empty
  [[nodiscard]] const DeviceWeight* floats(const bp_op& op, uint32_t i);
  // Tables that ids or positions index: sequences with others fail before the step.
  void limit_ids(uint32_t n) { plan_.vocabularies.push_back(n); }
  void limit_positions(uint32_t n) { plan_.positions.push_back(n); }
  // A buffer that holds another form of one, by a key of its own: kNoBuffer where there is none
  // yet. Values are written once: what was made of them stays true for later ops.
  [[nodiscard]] uint32_t made_of(uint32_t buffer, uint64_t key);
  void set_made_of(uint32_t buffer, uint64_t key, uint32_t made) { made_[{buffer, key}] = made; }
  // The matrix that the first op to read a buffer multiplies it by, in weight slot 0; or null.
  [[nodiscard]] const bp_weight_part* matrix_of_consumer(uint32_t buffer) const;
  // Whether an op after this one takes a buffer as input.
  [[nodiscard]] bool is_read_later(uint32_t buffer) const;
  // A stage of this op; its buffers are those asked for since the op began.
  void add(Enqueue enqueue);

 private:
  Status plan_op(const bp_op& op);
  [[nodiscard]] uint32_t use(uint32_t buffer);
  const DeviceWeight* weight(const bp_op& op, uint32_t i, bool as_floats);

  const ProgramView& program_;
  WeightStore& store_;
  DeviceInfo device_;
  StepShape most_;
  Plan plan_;
  std::vector<uint32_t> buffer_of_value_;
  HeadChains head_chains_;
  const bp_op* op_ = nullptr;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> made_;
  // Of the current op.
  std::vector<uint32_t> used_;
  std::map<Purpose, uint32_t> scratch_;
};

// One for each kind of op; nothing for kinds that are not known.
using PlanOp = Status (*)(Planner&);
[[nodiscard]] PlanOp find_plan_op(std::string_view kind);

}  // namespace bp::cuda

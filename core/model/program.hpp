#pragma once
// Programs (backplane/program.h) as owned data: ProgramParts is built and rewritten, Program is its
// checked, immutable C form.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backplane/op_attributes.hpp"
#include "backplane/op_schema.hpp"
#include "backplane/op_shapes.hpp"
#include "backplane/program.h"
#include "backplane/status.hpp"

namespace bp::model {

struct Weight {
  std::string name;
  std::vector<bp_weight_part> parts;  // the data part first
  [[nodiscard]] std::vector<uint64_t> dims() const {
    return {parts[0].dims, parts[0].dims + parts[0].n_dims};
  }
};

struct Op {
  const OpSchema* schema = nullptr;
  std::string name;
  // In the order of the schema's slots, one for each; BP_NONE for an absent one.
  std::vector<uint32_t> inputs, outputs, weights;
  AttributeBuffer attributes;  // as default_attributes(*schema) makes it
};

struct ProgramParts {
  std::vector<bp_value> values;
  std::vector<Weight> weights;
  std::vector<Op> ops;
  std::vector<uint32_t> inputs, outputs;
  std::vector<bp_kv_slot> kv_slots;
  std::vector<bp_kv_group> kv_groups;
  std::vector<bp_state_slot> state_slots;
  std::vector<std::shared_ptr<const void>> owned;  // data of weights that no file holds

  uint32_t add_value(const bp_value& value);
  uint32_t add_weight(Weight weight);
};

// Widths of what stands in an op's slots.
OpShapes shapes_of(const ProgramParts& parts, const Op& op);

// Appends an op whose `outputs` say by anything but BP_NONE which outputs are wanted; they become
// new values, with widths by the op's schema and rows by `row_output`, the program output that a
// slot of R rows belongs to. An error says which slot does not fit, without a place. Returns the
// op.
Result<const Op*> append_op(ProgramParts& parts, Op op, uint32_t row_output = 0);

class Program {
 public:
  // One error lists everything that is wrong.
  static Result<Program> create(ProgramParts parts);

  // Stays where it is when the Program is moved.
  [[nodiscard]] const bp_program& c() const;
  [[nodiscard]] const ProgramParts& parts() const;

 private:
  struct Storage;
  explicit Program(std::shared_ptr<const Storage> storage) : storage_(std::move(storage)) {}
  std::shared_ptr<const Storage> storage_;
};

}  // namespace bp::model

#pragma once
// The program of one case of an op spec: inputs are rows of random tables that token ids name, then
// comes the op or its body, then the rows of its outputs that the batch asks for.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backplane/op_shapes.hpp"
#include "sdk/conformance/support/ops/op_case.hpp"
#include "sdk/conformance/support/program_builder.hpp"

namespace bp::conformance {

class CaseProgram {
 public:
  // Throws std::runtime_error where the case does not fit the op. `spec` and `c` outlive this.
  CaseProgram(const OpSpec& spec, const OpCase& c, const CaseRun& run);

  [[nodiscard]] ProgramBuilder& builder() { return builder_; }
  [[nodiscard]] uint32_t n_groups() const { return has_kv_ ? 1 : 0; }
  [[nodiscard]] bool has_state() const { return has_state_; }
  // Names and widths of the program outputs, which are the op's.
  struct Output {
    std::string name;
    uint64_t width;
  };
  [[nodiscard]] const std::vector<Output>& outputs() const { return program_outputs_; }
  // Ids are rows of the input tables, or random for an op that reads ids itself.
  [[nodiscard]] int32_t token_id(uint32_t row) const;

 private:
  [[nodiscard]] bool is_filled(const SlotSchema& slot) const;
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] std::optional<double> symbol(std::string_view name) const;
  [[nodiscard]] ExpressionScope scope() const;
  [[nodiscard]] uint64_t dimension(std::string_view text) const;
  [[nodiscard]] uint64_t width(const SlotSchema& slot) const;
  [[nodiscard]] std::string seed(std::string_view slot) const;

  void set_attributes();
  uint32_t random_rows(std::string_view name, uint64_t width);
  void fill_inputs();
  [[nodiscard]] std::vector<float> weight_values(const SlotSchema& slot,
                                                 const std::vector<uint64_t>& dims) const;
  [[nodiscard]] const SlotSchema* last_matrix() const;  // or null
  void fill_weights();
  void add_kv();
  void add_state();
  void add_outputs();
  void add_op();
  void select_outputs();

  const OpSpec& spec_;
  const OpCase& case_;
  CaseRun run_;
  const OpSchema& schema_;
  ProgramBuilder builder_;
  AttributeBuffer attributes_;
  uint32_t n_rows_ = 0, ids_ = BP_NONE;
  bool has_kv_ = false, has_state_ = false;
  std::map<std::string, uint32_t> inputs_, outputs_, weights_;
  std::vector<Output> program_outputs_;
};

}  // namespace bp::conformance

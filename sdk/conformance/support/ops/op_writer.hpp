#pragma once
// Adds ops to a program as they are, or by their bodies in primitives.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_spec.hpp"
#include "sdk/conformance/support/program_builder.hpp"

namespace bp::conformance {

// Values and weights in the order of the op's schema; BP_NONE for an absent one.
struct OpSlots {
  std::vector<uint32_t> inputs, outputs, weights;
};

// Adds the body of a composite; its ops are called `name`.KIND.INDEX. Throws std::runtime_error
// where a spec and its schema contradict each other.
void add_body(ProgramBuilder& builder, const std::string& name, const OpSpec& spec,
              const OpSlots& slots, const AttributeBuffer& attributes);

class OpWriter {
 public:
  // Composites of the kinds `inlined` are replaced by their bodies. `specs` outlive the writer.
  OpWriter(ProgramBuilder& builder, const std::vector<OpSpec>& specs,
           std::set<std::string> inlined = {})
      : builder_(builder), specs_(specs), inlined_(std::move(inlined)) {}

  void add(const std::string& name, const std::string& kind, const OpSlots& slots,
           const AttributeBuffer& attributes = {});
  [[nodiscard]] ProgramBuilder& builder() { return builder_; }

 private:
  ProgramBuilder& builder_;
  const std::vector<OpSpec>& specs_;
  std::set<std::string> inlined_;
};

}  // namespace bp::conformance

#pragma once
// Some ops of a program as a program of its own, whose other values come from recorded rows.

#include <map>
#include <vector>

#include "backplane/program_view.hpp"
#include "sdk/conformance/support/program_builder.hpp"

namespace bp::conformance {

class Excerpt {
 public:
  // Keeps the KV slots of the whole program, which outlives this.
  explicit Excerpt(const ProgramView& whole);

  // The value is row i of `rows` for token id i.
  void feed(uint32_t value, const std::vector<float>& rows);
  // An op of the whole program; its inputs are fed, or outputs of ops added before.
  void add(uint32_t op);
  // Makes a value, which has a row per token, the next program output.
  void expose(uint32_t value) { builder_.add_selected_output(map(value)); }

  [[nodiscard]] ProgramBuilder& builder() { return builder_; }

 private:
  uint32_t map(uint32_t value);
  uint32_t import_weight(uint32_t weight);

  const ProgramView& whole_;
  ProgramBuilder builder_;
  uint32_t ids_;
  std::map<uint32_t, uint32_t> values_, weights_;  // of the whole program to those of the excerpt
};

}  // namespace bp::conformance

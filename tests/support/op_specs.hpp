#pragma once
// The specs of the source tree's sdk/ops.

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "sdk/conformance/support/ops/op_spec.hpp"

namespace bp::test {

inline std::vector<conformance::OpSpec> load_op_specs() {
  const char* source = std::getenv("BACKPLANE_SOURCE_DIR");
  if (source == nullptr) throw std::runtime_error("BACKPLANE_SOURCE_DIR is not set");
  return conformance::load_op_specs(std::string(source) + "/sdk/ops");
}

// Read once in a process.
inline const conformance::OpSpec& op_spec_of(const std::string& name) {
  static const std::vector<conformance::OpSpec> specs = load_op_specs();
  for (const conformance::OpSpec& spec : specs) {
    if (spec.name == name) return spec;
  }
  throw std::runtime_error("no spec of " + name);
}

}  // namespace bp::test

#pragma once
// Ops with one mistake each, by the name of the mutation.

#include <string_view>

#include "backplane/reference/op_call.hpp"
#include "backplane/status.hpp"

namespace bp::mutants {

// Whether the mutation changes this op, and if so, runs it.
[[nodiscard]] bool run_mutated(std::string_view mutation, const reference::OpCall& call);

}  // namespace bp::mutants

#pragma once

#include "backplane/backend.hpp"
#include "backplane/program_view.hpp"

namespace bp::cuda {

// What is valid but beyond this backend, each as an obstacle. The program has passed
// validate_program.
void check_limits(const ProgramView& program, CheckReport& report);

}  // namespace bp::cuda

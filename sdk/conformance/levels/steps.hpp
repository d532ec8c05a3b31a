#pragma once
// The second half of the level "steps": where blocks lie, and what lies in them.

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

void add_block_steps_tests(Tests& tests);
// What sequences keep beside blocks.
void add_state_steps_tests(Tests& tests);
// Blocks and states to host memory and back.
void add_transfer_steps_tests(Tests& tests);
// What the backend makes of rows of logits itself.
void add_sampling_steps_tests(Tests& tests);
// As many steps in flight as memory says.
void add_in_flight_steps_tests(Tests& tests);
// Steps that begin with what the step before chose.
void add_chosen_steps_tests(Tests& tests);

}  // namespace bp::conformance

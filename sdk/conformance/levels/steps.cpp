#include "sdk/conformance/levels/levels.hpp"

namespace bp::conformance {

void add_steps_tests(Subject&, Tests&) {}

}  // namespace bp::conformance

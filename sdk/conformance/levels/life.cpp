#include "sdk/conformance/levels/levels.hpp"

namespace bp::conformance {

void add_life_tests(Subject&, Tests&) {}

}  // namespace bp::conformance

#include "sdk/conformance/levels/levels.hpp"

namespace bp::conformance {

void add_schedulers_tests(Subject&, Tests&) {}

}  // namespace bp::conformance

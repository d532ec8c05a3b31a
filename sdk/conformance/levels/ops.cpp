#include "sdk/conformance/levels/levels.hpp"

namespace bp::conformance {

void add_ops_tests(Subject&, Tests&) {}

}  // namespace bp::conformance

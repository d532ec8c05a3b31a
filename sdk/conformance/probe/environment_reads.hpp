#pragma once
// How often the process has asked for an environment variable. The program's own getenv stands
// before that of the C library, for plugins too; under a sanitizer it does not, and the count stays
// 0.

#include <cstdint>
#include <string>

namespace bp::conformance {

[[nodiscard]] uint64_t n_environment_reads();
[[nodiscard]] std::string last_environment_read();  // the variable's name

}  // namespace bp::conformance

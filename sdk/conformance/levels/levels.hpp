#pragma once
// The levels of the tool: which kinds of plugin each is for, and the function that adds its tests.
// Adding tests runs no code of the plugin.

#include <span>
#include <string_view>

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

class Subject;

void add_load_tests(Subject& subject, Tests& tests);
void add_abi_tests(Subject& subject, Tests& tests);
void add_life_tests(Subject& subject, Tests& tests);
void add_ops_tests(Subject& subject, Tests& tests);
void add_steps_tests(Subject& subject, Tests& tests);
void add_errors_tests(Subject& subject, Tests& tests);
void add_threads_tests(Subject& subject, Tests& tests);
void add_model_tests(Subject& subject, Tests& tests);
void add_formats_tests(Subject& subject, Tests& tests);
void add_samplers_tests(Subject& subject, Tests& tests);
void add_kernels_tests(Subject& subject, Tests& tests);
void add_schedulers_tests(Subject& subject, Tests& tests);

struct Level {
  std::string_view name;
  std::string_view kind;  // factory id of the plugins it is for; "" for all
  void (*add)(Subject& subject, Tests& tests);
  std::string_view description;
};

// In the order in which they run.
[[nodiscard]] std::span<const Level> all_levels();

// Names the first op at which a backend leaves its bound; returns the exit code of the program.
[[nodiscard]] int bisect(Subject& subject);

}  // namespace bp::conformance

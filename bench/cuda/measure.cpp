// Times steps of a backend plugin on a model of real shape and random weights.
// usage: measure PLUGIN.plugin.yaml SHAPE TYPES [KEY=VALUE ...] TASK... [--steps N] [--kv DTYPE]
//        [--sample best|draw|candidates] [--ahead] [--profile]
// TYPES: a dtype, or q4_k_m. Each TASK prints a line: the median step, tokens per second, and bytes
// of weights read per second.
//   decode:SEQUENCES:DEPTH      one token each, behind DEPTH that are cached
//   prefill:TOKENS:DEPTH        of one sequence
//   mixed:SEQUENCES:TOKENS:DEPTH  both in one step
//   transfer:TOKENS             KV blocks to host memory and back, beside computing them again
// --ahead: decodes again, each from what the step before chose, submitted while that one runs.
// --profile: ncu --profile-from-start off sees the steps that are timed one at a time, and no other.
// Where the backend logs the device's time of each step (cuda: step_times=true), a line says how
// long the device was idle in a step.

#include <cstdio>
#include <exception>
#include <string>

#include "bench/cuda/arguments.hpp"
#include "bench/cuda/step_bench.hpp"

namespace {

int fail(const std::string& wrong, int code) {
  std::fprintf(stderr, "measure: %s\n", wrong.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = bp::bench::read_arguments({argv + 1, argv + argc});
  if (!arguments.ok()) return fail(arguments.status().message(), 2);
  auto subject = bp::conformance::Subject::open(arguments->plugin, arguments->options);
  if (!subject.ok()) return fail(subject.status().message(), 2);
  try {
    bp::bench::StepBench bench(*arguments, **subject);
    for (const auto& task : arguments->tasks) bench.run(task);
  } catch (const std::exception& e) {
    return fail(e.what(), 1);
  }
  return 0;
}

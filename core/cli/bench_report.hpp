#pragma once
// What `bench` prints: figures, and what they are of the machine's own limits.

#include <cstdint>
#include <string>
#include <vector>

#include "core/cli/machine_probe.hpp"
#include "core/cli/step_cost.hpp"

namespace bp::cli {

struct Measured {
  enum class Kind : uint8_t { kPrefill, kDecode };
  Kind kind;
  uint32_t n_sequences;
  uint32_t depth;
  double context;             // of a token measured, on average
  double tokens_s;            // of all sequences
  double bandwidth_gb_s = 0;  // the machine's, right before and after; 0 where not measured
};

struct BenchReport {
  std::string model;
  uint32_t n_prompt, n_generate;
  StepCost cost;
  Machine machine;
  std::vector<Measured> results;

  // On standard output.
  void print_table() const;
  void print_json() const;
};

}  // namespace bp::cli

#pragma once
// How long a step takes: a sum of what it reads and computes, with measured prices.

#include <cstdint>
#include <string>

#include "backplane/status.hpp"

namespace bp::base {
class Yaml;
}

namespace bp::simulate {

// What a step computes.
struct StepLoad {
  uint64_t n_decode = 0;         // sequences with one token to compute
  uint64_t decode_context = 0;   // tokens that these attend to, summed
  uint64_t n_prefill = 0;        // tokens of prompts, and of what is computed again
  uint64_t prefill_context = 0;  // tokens that each of these attends to, summed
};

struct CostModel {
  std::string source;  // a sentence for people: where the prices are from
  // Microseconds; none is negative.
  double step = 0;            // of any step: reading the weights
  double decode_token = 0;    // of a sequence that decodes
  double decode_context = 0;  // of a token that a decoding sequence attends to
  double prefill_token = 0;
  double prefill_context = 0;  // of a pair of a prefill token and one it attends to

  [[nodiscard]] double step_us(const StepLoad& load) const {
    return step + decode_token * static_cast<double>(load.n_decode) +
           decode_context * static_cast<double>(load.decode_context) +
           prefill_token * static_cast<double>(load.n_prefill) +
           prefill_context * static_cast<double>(load.prefill_context);
  }
};

// SmolLM2-135M-Instruct (Q4_1) on one core: the fit of
// bench/results/smollm2-135m-q4_1-one-core.json.
CostModel default_cost_model();

// A file of `backplane bench --json`, or YAML with the prices under `step_us`.
Result<CostModel> load_cost_model(const std::string& path);

// The map under `step_us`.
Result<CostModel> read_prices(const base::Yaml& prices);

}  // namespace bp::simulate

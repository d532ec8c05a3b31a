#pragma once
// The command line of measure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/status.hpp"
#include "bench/cuda/shapes.hpp"
#include "sdk/conformance/subject.hpp"

namespace bp::bench {

// A step that is timed, or a transfer.
struct Task {
  std::string title;         // "decode n 1 depth 512"
  uint32_t n_decode = 0;     // sequences of one token
  uint32_t n_prefill = 0;    // tokens of one sequence more
  uint32_t depth = 0;        // tokens that each of them has cached
  bool is_transfer = false;  // of a sequence of n_prefill tokens, to host memory and back
};

struct Arguments {
  std::string plugin, types;
  Shape shape{};
  Mix mix{};
  bp_dtype kv = BP_DTYPE_NONE;
  conformance::Options options;
  std::vector<Task> tasks;
  uint32_t n_steps = 30;
  std::string sample;  // what the backend chooses itself; empty: rows of logits come to the host
  bool ahead = false;
  bool profile = false;  // a profiler that waits for it sees the timed steps of a task
};

[[nodiscard]] Result<Arguments> read_arguments(const std::vector<std::string>& words);

}  // namespace bp::bench

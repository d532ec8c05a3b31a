#pragma once
// A scheduler plugin run against sequences that are only numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "core/plugin/scheduler.hpp"

namespace bp::testing {

struct SimulatedRequest {
  uint32_t at = 0;  // step of its arrival
  uint32_t prompt = 1;
  uint32_t generate = 1;
  int32_t priority = 0;
};

struct Trace {
  uint32_t n_blocks = 100;  // null block included
  uint32_t block_size = 4;
  uint32_t max_step_tokens = 8;
  uint32_t max_sequences = 4;
  std::vector<SimulatedRequest> requests;  // by arrival
};

struct Simulation {
  // A step is "0:8 1:1 !2": request 0 computed 8 tokens, 1 computed one, and 2 was preempted.
  std::vector<std::string> steps;
  std::vector<uint32_t> finished_at;  // step by request
  std::string invalid;                // the first decision that the core would refuse
  bool all_finished = false;
};

// At most `max_steps`.
Simulation simulate(const plugin::SchedulerHandle& scheduler, const Trace& trace,
                    uint32_t max_steps);

}  // namespace bp::testing

#pragma once
// Whole steps as captured graphs: one for each of a few numbers of decoding sequences, up to which
// smaller steps are padded. Other steps are launched kernel by kernel.

#include <map>
#include <memory>
#include <vector>

#include "backends/cuda/plan/plan.hpp"

namespace bp::cuda {

// The numbers of tokens that have a graph, ascending, from 1 to at most max_tokens.
[[nodiscard]] std::vector<uint32_t> graph_sizes(uint32_t max_tokens);

// Those steps, whole: of as many sequences that decode, with as many rows of every output.
[[nodiscard]] std::vector<StepShape> graph_shapes(const StepShape& most, uint32_t max_sequences);

class StepGraphs {
 public:
  // Captures the steps of the context's shape: shape aside, a step changes only what its addresses
  // hold.
  Status capture(const Plan& plan, const StageContext& context);

  struct Match {
    Graph* graph = nullptr;  // null where there is none for such steps
    StepShape shape;         // what the step is to be padded to
  };
  [[nodiscard]] Match find(const StepShape& shape) const;

 private:
  struct Captured {
    std::unique_ptr<Graph> graph;
    StepShape shape;
  };
  std::map<uint32_t, Captured> by_tokens_;
};

}  // namespace bp::cuda

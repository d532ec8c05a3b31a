#pragma once
// Stage 5: rows of logits become tokens and logprobs.

#include <cstdint>
#include <optional>
#include <vector>

#include "backplane/status.hpp"
#include "core/engine/batch_builder.hpp"
#include "core/engine/sampler_chain.hpp"
#include "core/engine/schedule.hpp"

namespace bp::plugin {
class ThreadTeam;
}

namespace bp::engine {

struct Draw {
  Status error;  // of this choice alone
  int32_t token = -1;
  std::optional<PositionLogprobs> logprobs;
};

// What the step brought for plan.sequences[i].
struct Outcome {
  bool computed = false;  // false: stopped in flight, nothing was written
  Status error;           // of its data: the sequence ends
  std::vector<PositionLogprobs> prompt_logprobs;
  std::vector<Draw> draws;  // where a token was due: its own, then one for each of its forks
};

// Room for one row in work.
struct SampleRoom {
  SampleScratch scratch;
  std::vector<float> row;  // [n_vocab]
};

// The team's workers, of which the caller is one, or where there is no team or another model has
// it the caller alone. rooms: of the workers, made as needed.
struct Samplers {
  plugin::ThreadTeam* team;
  std::vector<SampleRoom>& rooms;
};

std::vector<Outcome> sample(const Plan& plan, Batch& batch,
                            std::span<const int32_t> end_of_generation, Samplers samplers);

}  // namespace bp::engine

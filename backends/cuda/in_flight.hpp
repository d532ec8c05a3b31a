#pragma once
// A step between submit and collect. What the host writes or reads of it is there for each step in
// flight: the host packs the second while the first computes. What the device has is there once:
// copies in, kernels and copies out of all steps follow one another in one stream.

#include <chrono>
#include <memory>
#include <vector>

#include "backends/cuda/device/device.hpp"
#include "backends/cuda/sampling.hpp"
#include "backplane/batch.h"

namespace bp::cuda {

inline constexpr uint32_t kMaxInFlight = 2;

// How long collect asks for the end of a step before it sleeps until then: waking up takes tens of
// microseconds, in which a device without a second step would be idle. Most steps that only decode
// end within it; the thread yields between questions.
inline constexpr std::chrono::microseconds kPolling{5000};

[[nodiscard]] Status wait_for(Event& event, std::chrono::microseconds polling);

struct InFlight {
  bp_batch batch{};                   // its memory is the host's until collect
  bool is_computed = false;           // some sequence ran
  std::vector<uint32_t> sequence_of;  // of tokens
  std::vector<uint8_t> is_running;    // of sequences
  Memory arena;                       // pinned: the batch on its way to the device
  Memory outputs;  // pinned: rows of each output in the order of the batch's outputs
  SampleRoom samples;
  std::unique_ptr<Event> is_done;
  std::unique_ptr<Timer> timer;  // null where steps are not timed
};

}  // namespace bp::cuda

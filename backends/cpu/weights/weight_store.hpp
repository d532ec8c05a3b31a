#pragma once
// Prepared weights, shared by the executables of one backend as long as one of them uses them.

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "backends/cpu/weights/prepared_weight.hpp"
#include "backends/cpu/weights/weight_cache.hpp"
#include "backplane/backend.hpp"

namespace bp::cpu {

using PreparedWeights = std::span<const std::shared_ptr<PreparedWeight>>;

class WeightStore {
 public:
  // bf16_layout: see PreparedWeight
  explicit WeightStore(Bf16Layout bf16_layout) : bf16_layout_(bf16_layout) {}

  // The weight of these rows, which an executable may have placed already. [control]
  std::shared_ptr<PreparedWeight> get(const WeightRows& rows, Prepare prepare);

  // Gives strips to those that lack them, from the cache where it has them. [control]
  Status place(PreparedWeights weights, const WeightCache* cache, const Team& team,
               const Progress& progress);

 private:
  const Bf16Layout bf16_layout_;
  std::mutex mutex_;
  WeightArena arena_;
  std::map<std::pair<WeightRows, Prepare>, std::weak_ptr<PreparedWeight>> weights_;
};

}  // namespace bp::cpu

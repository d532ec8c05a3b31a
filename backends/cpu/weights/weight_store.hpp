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
  // bf16_tile_rows: see PreparedWeight
  explicit WeightStore(uint32_t bf16_tile_rows) : bf16_tile_rows_(bf16_tile_rows) {}

  // The weight of these rows, which an executable may have placed already. [control]
  std::shared_ptr<PreparedWeight> get(const WeightRows& rows, Prepare prepare);

  // Gives strips to those that lack them, from the cache where it has them. [control]
  Status place(PreparedWeights weights, const WeightCache* cache, const Team& team,
               const Progress& progress);

 private:
  const uint32_t bf16_tile_rows_;
  std::mutex mutex_;
  WeightArena arena_;
  std::map<std::pair<WeightRows, Prepare>, std::weak_ptr<PreparedWeight>> weights_;
};

}  // namespace bp::cpu

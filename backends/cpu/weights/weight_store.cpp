#include "backends/cpu/weights/weight_store.hpp"

namespace bp::cpu {

Result<std::shared_ptr<const PreparedWeight>> WeightStore::get(const WeightRows& rows,
                                                               Prepare prepare, const Team& team) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const PreparedWeight>& entry = weights_[{rows, prepare}];
  if (auto weight = entry.lock()) return weight;
  BP_ASSIGN(auto weight, PreparedWeight::create(rows, prepare, team, arena_));
  entry = weight;
  return weight;
}

}  // namespace bp::cpu

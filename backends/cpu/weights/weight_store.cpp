#include "backends/cpu/weights/weight_store.hpp"

#include "backplane/file_mappings.hpp"

namespace bp::cpu {

std::shared_ptr<PreparedWeight> WeightStore::get(const WeightRows& rows, Prepare prepare) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<PreparedWeight>& entry = weights_[{rows, prepare}];
  if (auto weight = entry.lock()) return weight;
  auto weight = std::make_shared<PreparedWeight>(rows, prepare, bf16_layout_);
  entry = weight;
  return weight;
}

Status WeightStore::place(PreparedWeights weights, const WeightCache* cache, const Team& team,
                          const Progress& progress) {
  const std::lock_guard lock(mutex_);
  const FileMappings mappings;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (progress.report(i, weights.size())) return cancelled("compiling was stopped");
    PreparedWeight& weight = *weights[i];
    if (!weight.is_placed() && cache != nullptr) weight.place(cache->find(weight));
    const bool packs = !weight.is_placed();
    BP_TRY(weight.place(team, arena_));
    if (packs) mappings.release(weight.rows().data, weight.rows().source_bytes());
  }
  if (progress.report(weights.size(), weights.size())) return cancelled("compiling was stopped");
  return {};
}

}  // namespace bp::cpu

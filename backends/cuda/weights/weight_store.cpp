#include "backends/cuda/weights/weight_store.hpp"

#include "backends/cuda/weights/upload.hpp"
#include "backplane/file_mappings.hpp"

namespace bp::cuda {

namespace {

constexpr uint64_t kAlignment = 256;

uint64_t aligned(uint64_t n_bytes) {
  return (n_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::shared_ptr<DeviceWeight> WeightStore::get(const SourceRows& source) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<DeviceWeight>& entry = weights_[source];
  if (auto weight = entry.lock()) return weight;
  auto weight = std::make_shared<DeviceWeight>(source);
  entry = weight;
  return weight;
}

Status WeightStore::place(Device& device, const DeviceWeights& weights, const Progress& progress) {
  const std::lock_guard lock(mutex_);
  std::erase_if(weights_, [](const auto& entry) { return entry.second.expired(); });
  DeviceWeights missing;
  uint64_t n_bytes = 0;
  for (const auto& weight : weights) {
    if (weight->is_placed()) continue;
    BP_TRY(code_books_.load(device, weight->source().device_dtype()));
    missing.push_back(weight);
    n_bytes += aligned(weight->source().device_bytes());
  }
  BP_ASSIGN(Memory made, device.allocate(MemoryKind::kDevice, n_bytes, "the weights"));
  const auto arena = std::make_shared<const Memory>(std::move(made));
  Upload upload(device, progress, n_bytes);
  BP_TRY(upload.open());
  uint64_t offset = 0;
  for (const auto& weight : missing) {
    BP_TRY(upload.add(weight->source(), arena->data() + offset));
    offset += aligned(weight->source().device_bytes());
  }
  BP_TRY(upload.close());
  const FileMappings mappings;
  offset = 0;
  for (const auto& weight : missing) {
    weight->place(arena, arena->data() + offset, code_books_.find(weight->source().device_dtype()));
    offset += aligned(weight->source().device_bytes());
    mappings.release(weight->source().data, weight->source().source_bytes());
  }
  return {};
}

}  // namespace bp::cuda

#pragma once
// Weights in device memory, shared by the executables of one backend as long as one of them uses
// them.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/weights/code_books.hpp"
#include "backends/cuda/weights/device_weight.hpp"
#include "backplane/backend.hpp"

namespace bp::cuda {

using DeviceWeights = std::vector<std::shared_ptr<DeviceWeight>>;

class WeightStore {
 public:
  // The weight of these rows, which an executable may have placed already. [control]
  std::shared_ptr<DeviceWeight> get(const SourceRows& source);

  // Places and uploads those that are not there, in one allocation. Progress is in bytes. [control]
  Status place(Device& device, const DeviceWeights& weights, const Progress& progress);

 private:
  std::mutex mutex_;
  CodeBooks code_books_;
  std::map<SourceRows, std::weak_ptr<DeviceWeight>> weights_;
};

}  // namespace bp::cuda

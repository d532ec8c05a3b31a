#pragma once
// Prepared weights, shared by the executables of one backend as long as one of them uses them.

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

class WeightStore {
 public:
  // The weight of these rows, prepared now unless an executable has it already so. [control]
  Result<std::shared_ptr<const PreparedWeight>> get(const WeightRows& rows, Prepare prepare,
                                                    const Team& team);

 private:
  std::mutex mutex_;
  WeightArena arena_;
  std::map<std::pair<WeightRows, Prepare>, std::weak_ptr<const PreparedWeight>> weights_;
};

}  // namespace bp::cpu

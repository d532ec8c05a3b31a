#pragma once
// Prepared weights, shared by the executables of one backend as long as one of them uses them.

#include <map>
#include <memory>
#include <mutex>

#include "backends/cpu/weights/prepared_weight.hpp"

namespace bp::cpu {

class WeightStore {
 public:
  explicit WeightStore(Prepare prepare) : prepare_(prepare) {}

  // The weight of these rows, prepared now unless an executable has it already. [control]
  Result<std::shared_ptr<const PreparedWeight>> get(const WeightRows& rows, const Team& team);

 private:
  const Prepare prepare_;
  std::mutex mutex_;
  std::map<WeightRows, std::weak_ptr<const PreparedWeight>> weights_;
};

}  // namespace bp::cpu

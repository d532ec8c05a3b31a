#pragma once
// The tables of the IQ types in device memory, each brought when a weight first needs it.

#include <map>

#include "backends/cuda/device/device.hpp"
#include "backplane/dtype.h"

namespace bp::cuda {

class CodeBooks {
 public:
  // Nothing to do for types without a table.
  Status load(Device& device, bp_dtype dtype);
  // Null for types without one.
  [[nodiscard]] const void* find(bp_dtype dtype) const;

 private:
  std::map<bp_dtype, Memory> books_;
};

}  // namespace bp::cuda

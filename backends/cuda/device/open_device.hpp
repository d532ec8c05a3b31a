#pragma once

#include <memory>

#include "backends/cuda/device/device.hpp"
#include "backplane/plugin.hpp"

namespace bp::cuda {

// The device that the configuration names. What the plugin links decides which kind: the CUDA
// runtime's (cuda_device.cpp) or the emulator's (emulated_device.cpp).
[[nodiscard]] Result<std::unique_ptr<Device>> open_device(const Params& params);

}  // namespace bp::cuda

#pragma once

#include <memory>
#include <string>

#include "backends/cuda/device/device.hpp"
#include "backplane/plugin.hpp"

namespace bp::cuda {

// What the configuration asks of a device where there is a choice.
struct DeviceChoices {
  bool matrix_library = true;
  bool byte_tiles = false;
  bool fp8_products = false;
  bool overlaps_launches = true;  // of steps of one token
};
[[nodiscard]] inline Result<DeviceChoices> read_choices(const Params& params) {
  const std::string_view prefill = params.get_string("prefill", "bf16");
  if (prefill != "bf16" && prefill != "int8") {
    return invalid_argument("prefill is \"" + std::string(prefill) + "\", expected bf16 or int8");
  }
  return DeviceChoices{params.get_bool("matrix_library", true), prefill == "int8",
                       params.get_bool("fp8_products", false), params.get_bool("overlap", true)};
}

// The device that the configuration names. What the plugin links decides which kind: the CUDA
// runtime's (cuda_device.cpp) or the emulator's (emulated_device.cpp).
[[nodiscard]] Result<std::unique_ptr<Device>> open_device(const Params& params);

}  // namespace bp::cuda

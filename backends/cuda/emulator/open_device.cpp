#include "backends/cuda/device/open_device.hpp"

#include <string>

#include "backends/cuda/emulator/emulated_device.hpp"

namespace bp::cuda {

Result<std::unique_ptr<Device>> open_device(const Params& params) {
  emulator::EmulatedSettings settings;
  BP_ASSIGN(const DeviceChoices choices, read_choices(params));
  settings.has_matrix_library = choices.matrix_library;
  settings.has_byte_tiles = choices.byte_tiles;
  settings.has_fp8_products = choices.fp8_products;
  const std::string_view order = params.get_string("order", "forward");
  if (order == "reversed") {
    settings.order = emulator::Order::kReversed;
  } else if (order == "shuffled") {
    settings.order = emulator::Order::kShuffled;
  } else if (order != "forward") {
    return invalid_argument("order is \"" + std::string(order) +
                            "\", expected forward, reversed or shuffled");
  }
  return std::unique_ptr<Device>(std::make_unique<emulator::EmulatedDevice>(settings));
}

}  // namespace bp::cuda

#pragma once
// What tests ask of "bp.device-sampling/1".

#include <limits>
#include <optional>

#include "backplane/ext/device_sampling.h"
#include "backplane/plugin.hpp"

namespace bp::conformance {

[[nodiscard]] inline std::optional<bp_device_sampling> offered_sampling(
    const bp_backend_factory& factory, bp_backend* backend) {
  const void* offered = factory.get_extension == nullptr
                            ? nullptr
                            : factory.get_extension(backend, BP_DEVICE_SAMPLING_ID);
  if (offered == nullptr) return std::nullopt;
  return copy_growable(static_cast<const bp_device_sampling*>(offered));
}

[[nodiscard]] inline bp_row_request plain_request() {
  return {0, BP_CHOOSE_NONE, -1, 0, nullptr, 0, -std::numeric_limits<float>::infinity(), 1, 0, 0};
}

[[nodiscard]] inline bp_row_request best_request() {
  bp_row_request request = plain_request();
  request.choice = BP_CHOOSE_BEST;
  return request;
}

[[nodiscard]] inline bp_row_request draw_request(uint32_t top_k, float floor, float scale,
                                                 double uniform) {
  return {0, BP_CHOOSE_DRAW, -1, 0, nullptr, top_k, floor, scale, 0, uniform};
}

}  // namespace bp::conformance

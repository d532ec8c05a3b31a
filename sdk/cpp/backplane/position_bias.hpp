#pragma once
// What a head's slope adds to the score of a position (attention in ops.h).

#include <cstdint>

#include "backplane/half.hpp"
#include "backplane/ops.h"

namespace bp {

[[nodiscard]] constexpr float rounded_to_bf16(float x) {
  return bf16_to_f32(f32_to_bf16(x));
}

// rounding: BP_SLOPES_*; `own` is the position of the token that attends.
[[nodiscard]] constexpr float position_bias(uint32_t rounding, float slope, int64_t position,
                                            int64_t own) {
  if (rounding == BP_SLOPES_EXACT) return slope * static_cast<float>(position - own);
  return rounded_to_bf16(rounded_to_bf16(slope) * rounded_to_bf16(static_cast<float>(position)));
}

}  // namespace bp

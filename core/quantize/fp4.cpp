// Four-bit floats with small float scales: mxfp4, nvfp4. Levels are doubled, scales halved.

#include <algorithm>
#include <cmath>

#include "backplane/reference/codebooks.hpp"
#include "core/quantize/block.hpp"
#include "core/quantize/encoders.hpp"
#include "core/quantize/fit.hpp"

namespace bp::quantize {

namespace {

const TableLevels& fp4_levels() {
  static const TableLevels table(reference::kFp4Values);
  return table;
}

void store_fp4(const float* in, int n, float scale, uint8_t* bytes) {
  uint8_t quants[32];
  for (int j = 0; j < n; ++j) quants[j] = fp4_levels().index(in[j] * inverse(scale));
  store_nibbles(quants, n, bytes);
}

// The code of lowest..highest whose scale leaves the least error.
template <class ScaleOf>
int best_code(const float* in, const float* weights, int n, int lowest, int highest,
              ScaleOf scale_of) {
  float least = INFINITY;
  int best = lowest;
  for (int code = lowest; code <= highest; ++code) {
    const float error = scale_error(fp4_levels(), scale_of(code), in, weights, n);
    if (error >= least) continue;
    least = error;
    best = code;
  }
  return best;
}

}  // namespace

void encode_block_mxfp4(const float* in, const float* weights, uint8_t* block) {
  const auto scale_of = [](int code) { return e8m0_to_f32(static_cast<uint8_t>(code)) * 0.5f; };
  const float top = std::fabs(peak(in, 32));
  // The power of two that brings the peak into 4..8 times itself; 6 is the largest level.
  const int exponent = top < kTiny ? -127 : std::ilogb(top) - 2;
  const int code = std::clamp(exponent + 127, 0, 254);
  const int best =
      best_code(in, weights, 32, std::max(code - 1, 0), std::min(code + 1, 254), scale_of);
  block[0] = static_cast<uint8_t>(best);
  store_fp4(in, 32, scale_of(best), block + 1);
}

void encode_block_nvfp4(const float* in, const float* weights, uint8_t* block) {
  constexpr int kLargest = 0x7e;  // 448
  const auto scale_of = [](int code) { return f8_e4m3_to_f32(static_cast<uint8_t>(code)) * 0.5f; };
  for (int group = 0; group < 4; ++group) {
    const float* x = in + 16 * group;
    const float* w = weights + 16 * group;
    const float top = std::min(std::fabs(peak(x, 16)) / 6.0f, 448.0f);
    const int code = std::min<int>(f32_to_f8_e4m3(top), kLargest);
    const int best =
        best_code(x, w, 16, std::max(code - 3, 0), std::min(code + 3, kLargest), scale_of);
    block[group] = static_cast<uint8_t>(best);
    store_fp4(x, 16, scale_of(best), block + 4 + 8 * group);
  }
}

}  // namespace bp::quantize

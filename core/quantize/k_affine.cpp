// Super-blocks of scales and minima: q2_K, q4_K, q5_K. Groups share the f16 numbers `d` and `dmin`;
// each has whole numbers to multiply them with. value = d * scale * quant - dmin * min

#include <algorithm>
#include <array>
#include <cmath>

#include "core/quantize/block.hpp"
#include "core/quantize/encoders.hpp"
#include "core/quantize/fit.hpp"

namespace bp::quantize {

namespace {

constexpr int kMaxGroups = 16;

struct AffineBlock {
  float d = 0, dmin = 0;  // representable in f16
  std::array<int, kMaxGroups> scale{}, min{};
  float error = 0;

  [[nodiscard]] float scale_of(int group) const {
    return d * static_cast<float>(scale[static_cast<size_t>(group)]);
  }
  [[nodiscard]] float offset_of(int group) const {
    return -dmin * static_cast<float>(min[static_cast<size_t>(group)]);
  }
};

int nearest_multiple(float wanted, float unit, int max) {
  if (unit < kTiny) return 0;
  return static_cast<int>(std::lround(std::clamp(wanted / unit, 0.0f, static_cast<float>(max))));
}

// kMax: of the quants; kMaxMultiple: of scales and minima.
template <int kGroups, int kMax, int kMaxMultiple>
class AffineSearch {
 public:
  AffineSearch(const float* x, const float* w) : x_(x), w_(w) {}

  AffineBlock run() {
    float scales[kGroups], mins[kGroups], scale_weights[kGroups], min_weights[kGroups];
    for (int g = 0; g < kGroups; ++g) {
      fits_[g] = fit_affine<kMax, Offset::kAtMostZero>(x_ + g * kWidth, w_ + g * kWidth, kWidth);
      scales[g] = fits_[g].scale;
      mins[g] = -fits_[g].offset;
      scale_weights[g] = fits_[g].curvature;
      min_weights[g] = 0;
      for (int i = 0; i < kWidth; ++i) min_weights[g] += w_[g * kWidth + i];
    }
    constexpr WholeLevels<0, kMaxMultiple> multiples;
    const float d = fit_scale(multiples, scales, scale_weights, kGroups).scale;
    const float dmin = fit_scale(multiples, mins, min_weights, kGroups).scale;
    AffineBlock best = choose(d, dmin);
    for (int round = 0; round < 2; ++round) {
      const AffineBlock other = refit(best);
      if (other.error >= best.error) break;
      best = other;
    }
    return best;
  }

 private:
  static constexpr int kWidth = 256 / kGroups;

  // The multiples near those wanted that leave the least error.
  AffineBlock choose(float d, float dmin) const {
    AffineBlock block;
    block.d = round_to_f16(d);
    block.dmin = round_to_f16(dmin);
    for (int g = 0; g < kGroups; ++g) choose_group(g, block);
    return block;
  }

  void choose_group(int g, AffineBlock& block) const {
    const int scale = nearest_multiple(fits_[g].scale, block.d, kMaxMultiple);
    const int min = nearest_multiple(-fits_[g].offset, block.dmin, kMaxMultiple);
    float least = INFINITY;
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kMaxMultiple); ++s) {
      for (int m = std::max(min - 1, 0); m <= std::min(min + 1, kMaxMultiple); ++m) {
        const float error =
            affine_error<kMax>(block.d * static_cast<float>(s), -block.dmin * static_cast<float>(m),
                               x_ + g * kWidth, w_ + g * kWidth, kWidth);
        if (error >= least) continue;
        least = error;
        block.scale[static_cast<size_t>(g)] = s;
        block.min[static_cast<size_t>(g)] = m;
      }
    }
    block.error += least;
  }

  // Least squares for d and dmin over the quants of `block`: x = d * a - dmin * b.
  AffineBlock refit(const AffineBlock& block) const {
    constexpr WholeLevels<0, kMax> levels;
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (int g = 0; g < kGroups; ++g) {
      const float inverse_scale = inverse(block.scale_of(g)), offset = block.offset_of(g);
      const auto scale = static_cast<float>(block.scale[static_cast<size_t>(g)]);
      const auto b = static_cast<float>(block.min[static_cast<size_t>(g)]);
      for (int i = g * kWidth; i < (g + 1) * kWidth; ++i) {
        const float a = scale * levels.snap((x_[i] - offset) * inverse_scale);
        aa += w_[i] * a * a;
        ab += w_[i] * a * b;
        bb += w_[i] * b * b;
        xa += w_[i] * x_[i] * a;
        xb += w_[i] * x_[i] * b;
      }
    }
    const float determinant = aa * bb - ab * ab;
    if (determinant <= 0) return choose(aa > 0 ? xa / aa : block.d, block.dmin);
    const float d = (xa * bb - xb * ab) / determinant;
    const float dmin = (xa * ab - xb * aa) / determinant;
    return d > 0 && dmin >= 0 ? choose(d, dmin) : block;
  }

  const float* x_;
  const float* w_;
  AffineFit fits_[kGroups];
};

template <int kMax, int kWidth>
void quantise(const AffineBlock& block, const float* in, uint8_t* quants) {
  constexpr WholeLevels<0, kMax> levels;
  for (int i = 0; i < 256; ++i) {
    const int g = i / kWidth;
    const float q = levels.snap((in[i] - block.offset_of(g)) * inverse(block.scale_of(g)));
    quants[i] = static_cast<uint8_t>(q);
  }
}

// Scales and minima of 8 groups, 6 bits each, in 12 bytes: those of 0..3 in the low 6 bits of bytes
// 0..3 and 4..7; those of 4..7 as nibbles of bytes 8..11 and the upper two bits of bytes 0..7.
void store_scales_and_mins(const AffineBlock& block, uint8_t* bytes) {
  for (size_t j = 0; j < 4; ++j) {
    const int scale = block.scale[j + 4], min = block.min[j + 4];
    bytes[j] = static_cast<uint8_t>(block.scale[j] | (scale >> 4) << 6);
    bytes[j + 4] = static_cast<uint8_t>(block.min[j] | (min >> 4) << 6);
    bytes[j + 8] = static_cast<uint8_t>((scale & 0xf) | (min & 0xf) << 4);
  }
}

}  // namespace

void encode_block_q2_K(const float* in, const float* weights, uint8_t* block) {
  const AffineBlock fit = AffineSearch<16, 3, 15>(in, weights).run();
  uint8_t quants[256];
  quantise<3, 16>(fit, in, quants);
  for (size_t j = 0; j < 16; ++j) {
    block[j] = static_cast<uint8_t>(fit.scale[j] | fit.min[j] << 4);
  }
  store_two_bits(quants, block + 16);
  store_f16(block + 80, fit.d);
  store_f16(block + 82, fit.dmin);
}

void encode_block_q4_K(const float* in, const float* weights, uint8_t* block) {
  const AffineBlock fit = AffineSearch<8, 15, 63>(in, weights).run();
  uint8_t quants[256];
  quantise<15, 32>(fit, in, quants);
  store_f16(block, fit.d);
  store_f16(block + 2, fit.dmin);
  store_scales_and_mins(fit, block + 4);
  for (int pair = 0; pair < 4; ++pair) {
    store_nibbles(quants + 64 * pair, 64, block + 16 + 32 * pair);
  }
}

void encode_block_q5_K(const float* in, const float* weights, uint8_t* block) {
  const AffineBlock fit = AffineSearch<8, 31, 63>(in, weights).run();
  uint8_t quants[256];
  quantise<31, 32>(fit, in, quants);
  store_f16(block, fit.d);
  store_f16(block + 2, fit.dmin);
  store_scales_and_mins(fit, block + 4);
  std::memset(block + 16, 0, 32);
  for (int i = 0; i < 256; ++i) {
    uint8_t& byte = block[16 + i % 32];
    byte = static_cast<uint8_t>(byte | (quants[i] >> 4) << (i / 32));
  }
  for (int pair = 0; pair < 4; ++pair) {
    store_nibbles(quants + 64 * pair, 64, block + 48 + 32 * pair);
  }
}

}  // namespace bp::quantize

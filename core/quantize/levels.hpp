#pragma once
// What the quants of a type may be: whole numbers, odd numbers, or the entries of a table.
//
// snap(v) is the level nearest to v, v being finite. peaks() are the levels, whole or not, that a
// search lets the element of the largest magnitude fall on; beyond the outermost level means that
// it is cut off.

#include <algorithm>
#include <array>
#include <cstdint>

namespace bp::quantize {

struct PeakRange {
  float first;
  float last;
  float step;
};

// Rounds to the nearest whole number, for magnitudes below 2^22.
[[nodiscard]] inline float round_small(float v) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: the sum has no bits left for a fraction
  return (v + kShift) - kShift;
}

// Whole numbers kLowest..kHighest. The peak lies within kCut tenths beyond the outermost level.
template <int kLowest, int kHighest, int kInside = 10, int kCut = 10>
struct WholeLevels {
  static constexpr float kLow = kLowest, kHigh = kHighest;
  static float snap(float v) {
    const float above = v < kLow ? kLow : v;
    return round_small(above > kHigh ? kHigh : above);
  }
  static constexpr std::array<PeakRange, 2> peaks() {
    return {around(kLow, -1.0f), around(kHigh, 1.0f)};
  }

 private:
  static constexpr PeakRange around(float level, float sign) {
    const float inside = level - sign * 0.1f * kInside;
    return {inside, level == 0 ? inside - sign : level + sign * 0.1f * kCut, sign * 0.1f};
  }
};

// 1, 3, .. kHighest: the quantised scales of the code book types.
template <int kHighest>
struct OddLevels {
  static float snap(float v) {
    const float half = (v - 1.0f) * 0.5f;
    const float above = half < 0.0f ? 0.0f : half;
    constexpr float kMost = (kHighest - 1) / 2;
    return 2.0f * round_small(above > kMost ? kMost : above) + 1.0f;
  }
  static constexpr std::array<PeakRange, 1> peaks() {
    return {{{kHighest * 0.75f, kHighest + 1.5f, 0.1f}}};
  }
};

// Sixteen levels whose midpoints are multiples of a half, as those of kIq4Values and kFp4Values.
class TableLevels {
 public:
  // The peak lies within a fifth of the outermost levels.
  constexpr explicit TableLevels(const std::array<int8_t, 16>& levels)
      : peaks_{around(*std::min_element(levels.begin(), levels.end())),
               around(*std::max_element(levels.begin(), levels.end()))} {
    for (int cell = 0; cell < kCells; ++cell) {
      const int v4 = 2 * (cell - kCells / 2) + 1;  // four times the middle of [cell / 2, + 1/2)
      int best = 0;
      for (int i = 1; i < 16; ++i) {
        if (distance(v4, levels[i]) < distance(v4, levels[best])) best = i;
      }
      nearest_[cell] = static_cast<uint8_t>(best);
      value_[cell] = levels[best];
    }
  }
  [[nodiscard]] float snap(float v) const { return value_[cell_of(v)]; }
  [[nodiscard]] uint8_t index(float v) const { return nearest_[cell_of(v)]; }
  [[nodiscard]] const std::array<PeakRange, 2>& peaks() const { return peaks_; }

 private:
  static constexpr int kCells = 512;
  static constexpr PeakRange around(float level) {
    return {0.8f * level, 1.2f * level, 0.02f * level};
  }
  static constexpr int distance(int v4, int level) {
    return v4 > 4 * level ? v4 - 4 * level : 4 * level - v4;
  }
  static int cell_of(float v) {
    const float clamped = std::clamp(v, -127.5f, 127.0f);
    return static_cast<int>(2.0f * clamped + 256.0f);  // above 0, so that this rounds down
  }

  std::array<PeakRange, 2> peaks_;
  std::array<uint8_t, kCells> nearest_{};
  std::array<float, kCells> value_{};
};

}  // namespace bp::quantize

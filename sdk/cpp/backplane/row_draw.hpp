#pragma once
// Draws from a row of logits, which stays as it is, or from other weights.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "backplane/softmax.hpp"

namespace bp {

// The index at `rest` in [0, sum of the weights): indices share that range in their order. Weights
// are 0 or more, in blocks of kDrawBlock (the last may have fewer) whose sums are given; the last
// block has one above 0. weigh(block): the block's weights.
template <class Weigh>
[[nodiscard]] size_t drawn_index(double rest, std::span<const double> sums, Weigh&& weigh) {
  size_t block = 0;
  while (block + 1 < sums.size() && rest >= sums[block]) rest -= sums[block++];
  size_t last = 0;  // of those with a weight; rounding may leave the sum a little short
  for (; block < sums.size(); ++block) {
    const std::span<const float> weights = weigh(block);
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      last = block * kDrawBlock + i;
      rest -= static_cast<double>(weights[i]);
      if (rest < 0) return last;
    }
  }
  return last;
}

// From softmax(scale * row) of the logits that are at least `least`. `max`, the row's greatest, is
// finite and one of them; `scale` is above 0. The row outlives it.
class RowDraw {
 public:
  RowDraw(std::span<const float> row, float max, float least, float scale)
      : row_(row),
        max_(max),
        least_(std::max(least, std::numeric_limits<float>::lowest())),
        scale_(scale),
        sums_((row.size() + kDrawBlock - 1) / kDrawBlock) {
    constexpr double kNothing = 0x1p-110;  // none of a block's values has a weight
    sums_of_draw(row_, max_, least_, scale_, sums_);
    for (const double sum : sums_) total_ += sum;
    while (sums_.size() > 1 && sums_.back() <= kNothing) sums_.pop_back();
  }

  // At least the sum of e^(logit - max) of the whole row, by Hoelder's inequality where the draw is
  // sharper than that; of flat rows little more.
  [[nodiscard]] double most_mass() const {
    const auto n = static_cast<double>(row_.size());
    const double sharpness = std::max(1.0, static_cast<double>(scale_));
    const double drawn = std::pow(total_ / n, 1 / sharpness);
    const double others = std::exp(static_cast<double>(least_) - static_cast<double>(max_));
    return n * (drawn + others) * (1 + ExpEstimate::kError);
  }

  // The id drawn by a uniform number in [0, 1): ids share that range in their order.
  [[nodiscard]] int32_t at(double uniform) const {
    float weights[kDrawBlock];
    const auto weigh = [&](size_t block) {
      const size_t begin = block * kDrawBlock;
      const auto logits = row_.subspan(begin, std::min(kDrawBlock, row_.size() - begin));
      exp_row(logits, max_, scale_, weights);
      for (size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] < least_) weights[i] = 0;
      }
      return std::span<const float>(weights, logits.size());
    };
    return static_cast<int32_t>(drawn_index(uniform * total_, sums_, weigh));
  }

 private:
  std::span<const float> row_;
  float max_, least_, scale_;
  std::vector<double> sums_;
  double total_ = 0;
};

}  // namespace bp

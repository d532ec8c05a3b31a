#pragma once
// Draws from a row of logits, which stays as it is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "backplane/softmax.hpp"

namespace bp {

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
    for (size_t block = 0; block < sums_.size(); ++block) {
      total_ += sums_[block];
      if (sums_[block] > kNothing) last_block_ = block;
    }
  }

  // The id drawn by a uniform number in [0, 1): ids share that range in their order.
  [[nodiscard]] int32_t at(double uniform) const {
    double rest = uniform * total_;
    size_t block = 0;
    while (block < last_block_ && rest >= sums_[block]) rest -= sums_[block++];
    int32_t last = -1;  // of those that can be drawn; rounding may leave the sum a little short
    for (; block <= last_block_; ++block) {
      float weights[kDrawBlock];
      const size_t begin = block * kDrawBlock;
      const auto logits = row_.subspan(begin, std::min(kDrawBlock, row_.size() - begin));
      exp_row(logits, max_, scale_, weights);
      for (size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] < least_ || weights[i] == 0) continue;
        last = static_cast<int32_t>(begin + i);
        rest -= static_cast<double>(weights[i]);
        if (rest < 0) return last;
      }
    }
    return last;
  }

 private:
  std::span<const float> row_;
  float max_, least_, scale_;
  std::vector<double> sums_;
  double total_ = 0;
  size_t last_block_ = 0;
};

}  // namespace bp

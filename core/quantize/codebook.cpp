#include "core/quantize/codebook.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "core/quantize/block.hpp"
#include "core/quantize/codebook_kernels.hpp"
#include "core/quantize/fit.hpp"

namespace bp::quantize {

namespace {

// An entry that may be the best of its vector: error = s * (s * b - a).
struct Line {
  float a;
  float b;
  uint16_t entry;
};

// What a group does at one scale with the best entries for it.
struct GroupFit {
  float a = 0, b = 0;  // sums over the chosen lines
  int variant = 0;
  [[nodiscard]] float error(float s) const { return s * (s * b - a); }
  [[nodiscard]] float scale() const { return b > 0 ? 0.5f * a / b : 0.0f; }
  [[nodiscard]] float least_error() const { return b > 0 ? -0.25f * a * a / b : 0.0f; }
};

class CodebookSearch {
 public:
  CodebookSearch(const CodebookShape& shape, const float* x, const float* weights)
      : shape_(shape),
        kernels_(*usable_codebook_kernels().back()),
        n_groups_(256 / shape.group),
        n_vectors_(shape.group / shape.n_dims) {
    const float largest = *std::max_element(shape.values.begin(), shape.values.end());
    lines_start_.push_back(0);
    for (int g = 0; g < n_groups_; ++g) {
      const float* xg = x + g * shape.group;
      const float* wg = weights + g * shape.group;
      const auto [low, high] = scale_range(xg, largest);
      for (int variant = 0; variant < shape.n_variants; ++variant) {
        for (int v = 0; v < n_vectors_; ++v) {
          collect_lines(xg + v * shape.n_dims, wg + v * shape.n_dims, variant, low, high);
        }
      }
      fit_group(g, low, high);
    }
  }

  CodebookBlock run() {
    const float d = shared_scale();
    Choice best = choose(d);
    for (int round = 0; round < 2; ++round) {
      const Choice other = choose(refit(best));
      if (other.error >= best.error) break;
      best = other;
    }
    for (int g = 0; g < n_groups_; ++g) write_entries(g, best.block);
    return best.block;
  }

 private:
  struct Choice {
    CodebookBlock block;
    std::array<GroupFit, 16> fits;
    float error = 0;
  };
  struct Range {
    float low, high;
  };

  // Between the scale that brings the group's spread to the book's largest element and the one that
  // brings its peak there, with some room.
  Range scale_range(const float* x, float largest) const {
    float squares = 0;
    for (int i = 0; i < shape_.group; ++i) squares += x[i] * x[i];
    const float spread = std::sqrt(squares / static_cast<float>(shape_.group));
    const float top = std::fabs(peak(x, shape_.group));
    return {0.6f * spread / largest, 1.4f * std::max(top, spread) / largest};
  }

  void collect_lines(const float* x, const float* w, int variant, float low, float high) {
    const int n = shape_.n_entries;
    float wx[8];
    for (int j = 0; j < shape_.n_dims; ++j) wx[j] = w[j] * x[j];
    const float* values =
        shape_.values.data() + static_cast<ptrdiff_t>(variant) * shape_.n_dims * n;
    kernels_.project(values, shape_.n_dims, n, wx, w, a_, b_);
    std::fill_n(keep_, n, uint8_t{1});
    for (const float s : {low, 0.5f * (low + high), high}) {
      const int other = kernels_.best(a_, b_, n, s);
      kernels_.drop_dominated(a_, b_, n, low, high, other, keep_);
    }
    for (int k = 0; k < n; ++k) {
      if (keep_[k] != 0) lines_.push_back({a_[k], b_[k], static_cast<uint16_t>(k)});
    }
    lines_start_.push_back(lines_.size());
  }

  const Line& best_line(int g, int variant, int v, float s) const {
    const auto list = static_cast<size_t>((g * shape_.n_variants + variant) * n_vectors_ + v);
    const Line* best = &lines_[lines_start_[list]];
    float least = s * best->b - best->a;
    for (const Line* line = best + 1; line != lines_.data() + lines_start_[list + 1]; ++line) {
      const float error = s * line->b - line->a;
      if (error >= least) continue;
      least = error;
      best = line;
    }
    return *best;
  }

  GroupFit fit_at(int g, int variant, float s) const {
    GroupFit fit;
    fit.variant = variant;
    for (int v = 0; v < n_vectors_; ++v) {
      const Line& line = best_line(g, variant, v, s);
      fit.a += line.a;
      fit.b += line.b;
    }
    return fit;
  }

  // The group's best scale by itself.
  void fit_group(int g, float low, float high) {
    constexpr int kSteps = 24;
    GroupFit& best = free_[static_cast<size_t>(g)];
    for (int variant = 0; variant < shape_.n_variants; ++variant) {
      for (int i = 0; i <= kSteps; ++i) {
        const float s = low + (high - low) * static_cast<float>(i) / kSteps;
        const GroupFit fit = fit_at(g, variant, s);
        if (fit.least_error() < best.least_error()) best = fit;
      }
    }
  }

  [[nodiscard]] float factor(int level) const {
    return shape_.unit * static_cast<float>(2 * level + 1);
  }

  // The d whose multiples come nearest to the groups' own scales.
  float shared_scale() const {
    float wanted[16], curvature[16];
    for (int g = 0; g < n_groups_; ++g) {
      wanted[g] = free_[static_cast<size_t>(g)].scale();
      curvature[g] = free_[static_cast<size_t>(g)].b;
    }
    const float step = shape_.max_level == 7
                           ? fit_scale(OddLevels<15>(), wanted, curvature, n_groups_).scale
                           : fit_scale(OddLevels<31>(), wanted, curvature, n_groups_).scale;
    return step / shape_.unit;
  }

  // The levels near those wanted that leave the least error.
  Choice choose(float d) const {
    Choice choice;
    choice.block.d = round_to_f16(d);
    if (choice.block.d <= 0) return choice;
    for (int g = 0; g < n_groups_; ++g) {
      const float wanted = free_[static_cast<size_t>(g)].scale() / choice.block.d / shape_.unit;
      // Not std::clamp, which lets NaN pass.
      const auto middle = static_cast<int>(
          std::min(std::max(0.0f, 0.5f * wanted), static_cast<float>(shape_.max_level)));
      choose_group(g, std::max(middle - 1, 0), std::min(middle + 1, shape_.max_level), choice);
    }
    return choice;
  }

  void choose_group(int g, int first, int last, Choice& choice) const {
    const auto group = static_cast<size_t>(g);
    float least = INFINITY;
    for (int level = first; level <= last; ++level) {
      const float s = choice.block.d * factor(level);
      for (int variant = 0; variant < shape_.n_variants; ++variant) {
        const GroupFit fit = fit_at(g, variant, s);
        if (fit.error(s) >= least) continue;
        least = fit.error(s);
        choice.fits[group] = fit;
        choice.block.level[group] = static_cast<uint8_t>(level);
        choice.block.variant[group] = static_cast<uint8_t>(variant);
      }
    }
    choice.error += least;
  }

  // The d that least squares give for the chosen entries.
  [[nodiscard]] float refit(const Choice& choice) const {
    float a = 0, b = 0;
    for (int g = 0; g < n_groups_; ++g) {
      const float f = factor(choice.block.level[static_cast<size_t>(g)]);
      a += f * choice.fits[static_cast<size_t>(g)].a;
      b += f * f * choice.fits[static_cast<size_t>(g)].b;
    }
    return b > 0 ? 0.5f * a / b : 0.0f;
  }

  void write_entries(int g, CodebookBlock& block) const {
    const auto group = static_cast<size_t>(g);
    const float s = block.d * factor(block.level[group]);
    for (int v = 0; v < n_vectors_; ++v) {
      block.entry[static_cast<size_t>(g * n_vectors_ + v)] =
          best_line(g, block.variant[group], v, s).entry;
    }
  }

  static constexpr int kMaxEntries = 4096;

  const CodebookShape& shape_;
  const CodebookKernels& kernels_;
  const int n_groups_;
  const int n_vectors_;  // of a group
  float a_[kMaxEntries], b_[kMaxEntries];
  uint8_t keep_[kMaxEntries];
  std::vector<Line> lines_;          // of group, variant, vector
  std::vector<size_t> lines_start_;  // one more than there are lists
  std::array<GroupFit, 16> free_{};  // each group with a scale of its own
};

}  // namespace

CodebookBlock fit_codebook(const CodebookShape& shape, const float* x, const float* weights) {
  if (std::fabs(peak(x, 256)) < kTiny) return {};
  return CodebookSearch(shape, x, weights).run();
}

Signs take_signs(const float* in) {
  Signs signs;
  for (size_t i = 0; i < 256; ++i) {
    if (in[i] < 0) signs.bits[i / 8] = static_cast<uint8_t>(signs.bits[i / 8] | 1 << (i % 8));
    signs.magnitudes[i] = std::fabs(in[i]);
  }
  return signs;
}

Signs take_even_signs(const float* in, const float* weights) {
  Signs signs = take_signs(in);
  for (size_t eight = 0; eight < 32; ++eight) {
    uint8_t& bits = signs.bits[eight];
    if (std::popcount(bits) % 2 == 0) continue;
    size_t least = 8 * eight;
    for (size_t i = least + 1; i < 8 * eight + 8; ++i) {
      if (weights[i] * signs.magnitudes[i] < weights[least] * signs.magnitudes[least]) least = i;
    }
    bits = static_cast<uint8_t>(bits ^ 1 << (least % 8));
    signs.magnitudes[least] = -signs.magnitudes[least];
  }
  return signs;
}

}  // namespace bp::quantize

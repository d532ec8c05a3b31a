#pragma once
// Passes over a row of logits by vectors: compilers vectorise neither maximum nor exponential
// without relaxed arithmetic. Compiled for each instruction set of the architecture; the processor
// chooses, and all of them give the same bits.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace bp {

static_assert(std::endian::native == std::endian::little, "for_each_from reads bytes by words");

// Values that skip_outside looks at together.
inline constexpr size_t kSkipBlock = 64;
// Values that sums_of_draw adds up.
inline constexpr size_t kDrawBlock = 1024;
// Sums that sums_from makes in one pass.
inline constexpr size_t kThresholds = 4;

namespace detail {

struct RowPasses {
  size_t n_lanes;
  bool (*has_nan_or_infinity)(const float* row, size_t n);
  float (*max_of)(const float* row, size_t n);
  void (*exp_row)(const float* row, size_t n, float max, float scale, float* out);
  double (*sum_of)(const float* row, size_t n);
  double (*sum_exp)(const float* row, size_t n, float max);
  size_t (*estimate_until)(const float* row, size_t n, float max, float least, double* sums);
  void (*sums_from)(const float* values, size_t n, const float* least, double* sums);
  void (*sums_of_draw)(const float* row, size_t n, float max, float least, float scale,
                       double* sums);
  void (*estimate_below)(const float* row, size_t n, float max, float logit, double enough,
                         double* sums);
  size_t (*skip_outside)(const float* row, size_t n, float least, float bound);
  void (*mark_from)(const float* row, float least, uint8_t* marks);
};

inline constexpr size_t kPassValues = 16;

// Vectors wider than the baseline's registers are passed between functions of one instruction set
// only, all inlined.
#define BP_LANES_INLINE [[gnu::always_inline]] inline

// Unrolled everywhere, and with no fused products, so that all give the same bits.
#if !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3", "fp-contract=off")
#endif

namespace lanes4 {
#define BP_LANES 4
#include "backplane/softmax_lanes.hpp"
#undef BP_LANES
}  // namespace lanes4

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace lanes8 {
#define BP_LANES 8
#include "backplane/softmax_lanes.hpp"
#undef BP_LANES
}  // namespace lanes8
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif
namespace lanes16 {
#define BP_LANES 16
#include "backplane/softmax_lanes.hpp"
#undef BP_LANES
}  // namespace lanes16
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif  // __x86_64__

#if !defined(__clang__)
#pragma GCC pop_options
#endif

#undef BP_LANES_INLINE

// Those that the processor can run, widest first.
inline std::span<const RowPasses* const> all_row_passes() {
#if defined(__x86_64__)
  static constexpr const RowPasses* kAll[] = {&lanes16::kPasses, &lanes8::kPasses,
                                              &lanes4::kPasses};
  const size_t n_beyond = __builtin_cpu_supports("avx512f") ? 0
                          : __builtin_cpu_supports("avx2")  ? 1
                                                            : 2;
  return std::span(kAll).subspan(n_beyond);
#else
  static constexpr const RowPasses* kAll[] = {&lanes4::kPasses};
  return kAll;
#endif
}
inline const RowPasses& row_passes() {
  static const RowPasses& passes = *all_row_passes().front();
  return passes;
}

}  // namespace detail

// NaN or +infinity: the row is no distribution.
[[nodiscard]] inline bool has_nan_or_infinity(std::span<const float> row) {
  return detail::row_passes().has_nan_or_infinity(row.data(), row.size());
}

// The greatest value; -inf of none. NaNs are passed over.
[[nodiscard]] inline float max_of(std::span<const float> row) {
  return detail::row_passes().max_of(row.data(), row.size());
}

// e^x for x <= 0, relative error below 2e-7; 0 below -87 and for -inf.
[[nodiscard]] inline float exp_nonpositive(float x) {
  return detail::lanes4::exp_nonpositive(x);
}

// out[i] = e^((row[i] - max) * scale), scale above 0; out may be row itself.
inline void exp_row(std::span<const float> row, float max, float scale, float* out) {
  detail::row_passes().exp_row(row.data(), row.size(), max, scale, out);
}
inline void exp_row(std::span<const float> row, float max, float* out) {
  exp_row(row, max, 1, out);
}

// The order of additions is fixed.
[[nodiscard]] inline double sum_of(std::span<const float> row) {
  return detail::row_passes().sum_of(row.data(), row.size());
}

// Sum of e^(x - max); `max` is at least every x.
[[nodiscard]] inline double sum_exp(std::span<const float> row, float max) {
  return detail::row_passes().sum_exp(row.data(), row.size(), max);
}

// A sum of e^(x - max), within kError of it, of the values that it was told. What weighs
// less than 2^-100, and what pads the last values to a vector, counts as that much.
class ExpEstimate {
 public:
  static constexpr double kError = 2e-4;
  // Where the first block of kSkipBlock values begins that has one of at least `least`; the row's
  // size if there is none. All values below `least` up to the end of that block have been added.
  [[nodiscard]] size_t add_until(std::span<const float> row, float max, float least) {
    return detail::row_passes().estimate_until(row.data(), row.size(), max, least, sums_);
  }
  [[nodiscard]] double sum() const {
    double sum = 0;
    for (const double x : sums_) sum += x;
    return sum;
  }

 private:
  double sums_[detail::kPassValues] = {};
};

// sums[t]: of the values >= least[t], which is above 0; no value is below 0. Within 1e-5 of its
// size.
inline void sums_from(std::span<const float> values, std::span<const float, kThresholds> least,
                      std::span<double, kThresholds> sums) {
  detail::row_passes().sums_from(values.data(), values.size(), least.data(), sums.data());
}

// sums[b]: of e^((x - max) * scale), scale above 0, of the values x >= least of block b of
// kDrawBlock values. What weighs less than 2^-126 counts as that much.
inline void sums_of_draw(std::span<const float> row, float max, float least, float scale,
                         std::span<double> sums) {
  detail::row_passes().sums_of_draw(row.data(), row.size(), max, least, scale, sums.data());
}

// Sums of e^(x - max), with ExpEstimate's errors.
struct MassBelow {
  double all, below;  // of the values looked at, and of those of them below `logit`
};
// From the row's front on until what is below is more than `enough`, or to its end.
[[nodiscard]] inline MassBelow estimate_below(std::span<const float> row, float max, float logit,
                                              double enough) {
  double sums[2];
  detail::row_passes().estimate_below(row.data(), row.size(), max, logit, enough, sums);
  return {sums[0], sums[1]};
}

// How many values at the front, whole blocks of kSkipBlock, are all below `least` or not below
// `bound`.
[[nodiscard]] inline size_t skip_outside(std::span<const float> row, float least, float bound) {
  return detail::row_passes().skip_outside(row.data(), row.size(), least, bound);
}

// f(i) for each value of the block, at most kSkipBlock of them, that is at least `least`, in order.
template <class F>
void for_each_from(std::span<const float> block, float least, F&& f) {
  if (block.size() < kSkipBlock) {
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] >= least) f(i);
    }
    return;
  }
  uint8_t marks[kSkipBlock];
  detail::row_passes().mark_from(block.data(), least, marks);
  for (size_t begin = 0; begin < kSkipBlock; begin += sizeof(uint64_t)) {
    uint64_t left;
    std::memcpy(&left, marks + begin, sizeof left);
    while (left != 0) {
      const auto bit = std::countr_zero(left);
      f(begin + static_cast<size_t>(bit) / 8);
      left ^= uint64_t{255} << bit;
    }
  }
}

}  // namespace bp

// Activations quantised into panels, by each instruction set that runs here.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/dot_cases.hpp"

namespace bp::cpu {
namespace {

TEST(QuantizeRow, IsWithinHalfAStepOfItsBlock) {
  constexpr uint32_t n_columns = 768;
  for (const Isa isa : available_isas()) {
    for (const uint32_t n : {1u, 4u}) {
      const std::vector<float> x = activations(n, n_columns);
      const Panel panel = make_panel(kernels_of(isa), x, n, n_columns);
      for (size_t i = 0; i < x.size(); ++i) {
        // Beside an outlier rounding is as fine as elsewhere.
        EXPECT_NEAR(panel.values[i], x[i], 5.0f / 127 / 2) << isa_name(isa) << " " << i;
      }
      EXPECT_EQ(panel.words[0], n > 1 ? 1 : 0) << "second records";
    }
  }
}

// Their squares are no floats any more.
TEST(QuantizeRow, TakesNoBlockOfTinyValuesForAnOutlier) {
  constexpr uint32_t n_columns = 2048;
  for (const Isa isa : available_isas()) {
    for (const float size : {1e-30f, 2e-23f, 1e-19f}) {
      std::vector<float> x = conformance::normal_values("x", n_columns);
      for (float& value : x) value *= size;
      const Panel panel = make_panel(kernels_of(isa), x, 1, n_columns);
      EXPECT_EQ(panel.words[0], 0) << isa_name(isa) << " " << size;
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(panel.values[i] / size, x[i] / size, 5.0f / 127 / 2) << isa_name(isa);
      }
    }
  }
}

// Of 16 columns from `begin` on.
int32_t sum_of_quants(const int32_t* record, uint32_t n, uint32_t t, uint32_t begin) {
  int32_t sum = 0;
  for (uint32_t c = begin; c < begin + 16; ++c) sum += quant_in(record, n, t, c);
  return sum;
}

TEST(QuantizeRow, SumsWhatItsRecordsHold) {
  for (const Isa isa : available_isas()) {
    for (const uint32_t n : {1u, 3u, kTileRows}) {
      for (const uint32_t n_columns : {32u, 288u, 896u}) {
        std::vector<float> x = activations(n, n_columns);
        x[n_columns - 5] *= 300;  // an outlier in a group that may be part of one
        const Panel panel = make_panel(kernels_of(isa), x, n, n_columns);
        const uint32_t n_blocks = n_columns / kPanelColumns;
        const int32_t* words = panel.words.data();
        const int32_t* records = words + panel_records_word(n_blocks, n);
        const auto n_seconds = static_cast<uint32_t>(words[0]);
        // Where sums of the instruction set begin.
        const int32_t start = records[10 * n] + 128 * (sum_of_quants(records, n, 0, 0) +
                                                       sum_of_quants(records, n, 0, 16));
        ASSERT_TRUE(start == 0 || start == 0x4b400000) << isa_name(isa) << " " << start;
        for (uint32_t t = 0; t < n; ++t) {
          for (uint32_t r = 0; r < n_blocks + n_seconds; ++r) {
            const int32_t* record = records + r * kPanelWords * n;
            const int32_t half = sum_of_quants(record, n, t, 0);
            const int32_t both = half + sum_of_quants(record, n, t, 16);
            ASSERT_EQ(float_at(record, 9 * n + t),
                      float_at(record, 8 * n + t) * static_cast<float>(both))
                << isa_name(isa) << " " << n << " " << r;
            const bool is_unused = r >= n_blocks && float_at(record, 8 * n + t) == 0;
            const int32_t begin = is_unused ? 0 : start;
            ASSERT_EQ(record[10 * n + t], begin - 128 * both)
                << isa_name(isa) << " " << n << " " << r;
            ASSERT_EQ(record[11 * n + t], begin - 128 * half)
                << isa_name(isa) << " " << n << " " << r;
            ASSERT_EQ(record[12 * n + t], begin - 128 * (both - half))
                << isa_name(isa) << " " << n << " " << r;
          }
          for (uint32_t b = 0; b < n_blocks; ++b) {
            const int32_t* group =
                words + panel_header_words(n_blocks) + b / kHalfSumBlocks * kHalfSumWords * n;
            const float unit = float_at(group, kHalfSumBlocks * n + t);
            const auto pair = static_cast<uint32_t>(group[b % kHalfSumBlocks * n + t]);
            const float* values = &panel.values[size_t{t} * n_columns + b * kPanelColumns];
            for (uint32_t h = 0; h < 2; ++h) {
              const double sum = std::accumulate(values + 16 * h, values + 16 * h + 16, 0.0);
              const auto of_unit = static_cast<int16_t>(pair >> (16 * h));
              ASSERT_NEAR(of_unit * unit, sum, 0.51 * unit + 1e-5 * std::abs(sum))
                  << isa_name(isa) << " " << n << " " << n_columns << " block " << b;
            }
          }
        }
      }
    }
  }
}

TEST(QuantizeRow, KeepsNanAndInfinityOutOfOtherRows) {
  constexpr uint32_t n_columns = 64;
  for (const Isa isa : available_isas()) {
    const Kernels& kernels = kernels_of(isa);
    std::vector<float> bad = conformance::normal_values("bad", n_columns);
    bad[40] = NAN;
    const std::vector<float> good = conformance::normal_values("good", n_columns);
    std::vector<int32_t> panel(panel_words(2, n_columns));
    const uint32_t seconds = max_seconds(2, n_columns);
    kernels.quantize_row(bad.data(), n_columns, panel.data(), 2, 0, seconds);
    kernels.quantize_row(good.data(), n_columns, panel.data(), 2, 1, seconds);
    const std::vector<uint8_t> rows = random_rows(BP_DTYPE_Q4_1, kStripRows, n_columns);
    std::vector<uint8_t> strip(strip_bytes(StripLayout::kQ4_1, n_columns));
    pack_strip(BP_DTYPE_Q4_1, rows.data(), row_bytes(BP_DTYPE_Q4_1, n_columns), kStripRows,
               n_columns, strip.data());
    float y[2 * kStripRows];
    kernels.strip_dot[static_cast<int>(StripLayout::kQ4_1)][2](strip.data(), true, n_columns,
                                                               panel.data(), y, kStripRows);
    for (uint32_t r = 0; r < kStripRows; ++r) {
      EXPECT_TRUE(std::isnan(y[r])) << isa_name(isa);
      EXPECT_TRUE(std::isfinite(y[kStripRows + r])) << isa_name(isa);
    }
  }
}

}  // namespace
}  // namespace bp::cpu

// The greatest values of rows that come in pieces, by each instruction set's kernels.

#include "backends/cpu/rows/row_peaks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/cpu_features.hpp"

namespace bp::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Rows = std::vector<std::vector<float>>;

// Pieces of so many columns and rows, in any order, by any worker.
std::vector<int32_t> found_in_pieces(const Kernels& kernels, const Rows& rows, uint32_t n_columns,
                                     uint32_t n_rows, uint32_t seed) {
  constexpr uint32_t kWorkers = 3;
  const auto width = static_cast<uint32_t>(rows[0].size());
  const auto height = static_cast<uint32_t>(rows.size());
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  struct Place {
    uint32_t row, column;
  };
  std::vector<Place> places;
  for (uint32_t row = 0; row < height; row += n_rows) {
    for (uint32_t column = 0; column < width; column += n_columns) places.push_back({row, column});
  }
  std::mt19937 random(seed);
  std::ranges::shuffle(places, random);
  RowPeaks peaks(height, kWorkers);
  for (const auto& [row, column] : places) {
    peaks.note(kernels, random() % kWorkers, row, std::min(n_rows, height - row), column,
               all.data() + row * width + column, width, std::min(n_columns, width - column));
  }
  std::vector<int32_t> found;
  for (uint32_t row = 0; row < height; ++row) found.push_back(peaks.column_of(row));
  return found;
}

void expect_found(const Rows& rows, const std::vector<int32_t>& expected) {
  for (const Isa isa : available_isas()) {
    for (const auto& [n_columns, n_rows] :
         {std::pair(1u, 1u), {7u, 2u}, {16u, 5u}, {50u, 3u}, {64u, 16u}, {100u, 4u}}) {
      for (uint32_t seed = 0; seed < 3; ++seed) {
        EXPECT_EQ(found_in_pieces(kernels_of(isa), rows, n_columns, n_rows, seed), expected)
            << isa_name(isa) << ", pieces of " << n_rows << " x " << n_columns;
      }
    }
  }
}

std::vector<float> random_row(uint32_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(-20, 3);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

TEST(RowPeaks, FindsTheGreatestOfEachRow) {
  for (const uint32_t n : {1u, 15u, 64u, 333u}) {
    Rows rows;
    std::vector<int32_t> expected;
    for (uint32_t r = 0; r < 5; ++r) {
      rows.push_back(random_row(n, r));
      expected.push_back(static_cast<int32_t>(std::ranges::max_element(rows[r]) - rows[r].begin()));
    }
    expect_found(rows, expected);
  }
}

TEST(RowPeaks, TheLowestOfEqualValuesCounts) {
  Rows rows = {std::vector<float>(200, 0.5f), random_row(200, 1), random_row(200, 2)};
  rows[1][70] = rows[1][71] = rows[1][199] = 4;
  for (const uint32_t i : {5u, 66u, 150u}) rows[2][i] = 0;
  rows[2][5] = -0.0f;
  expect_found(rows, {0, 70, 5});
}

TEST(RowPeaks, NothingIsSaidOfRowsWithoutNumbers) {
  Rows rows;
  for (uint32_t r = 0; r < 6; ++r) rows.push_back(random_row(200, r));
  rows[0][3] = kNan;
  rows[1][199] = -kNan;
  rows[2][100] = kInfinity;
  std::ranges::fill(rows[3], -kInfinity);
  std::ranges::fill(rows[4], -kInfinity);
  rows[4][131] = -1000;
  rows[5][64] = 1;
  expect_found(rows, {-1, -1, -1, -1, 131, 64});
}

TEST(RowPeaks, NothingIsSaidOfRowsThatNobodyNoted) {
  EXPECT_EQ(RowPeaks(3, 2).column_of(1), -1);
}

}  // namespace
}  // namespace bp::cpu

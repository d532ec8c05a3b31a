// Draws from a row that stays as it is, against sums in double.

#include "backplane/row_draw.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace bp {
namespace {

constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

std::vector<float> row_with_gaps(size_t n, float deviation) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> row(n);
  for (float& x : row) x = random() % 9 == 0 ? kNoFloor : normal(random);
  return row;
}

// By ascending id: how much of the whole the ids before each have.
std::vector<double> shares(const std::vector<float>& row, float max, float least, float scale) {
  std::vector<double> before = {0};
  for (const float x : row) {
    const double weight = std::exp(static_cast<double>((x - max) * scale));
    before.push_back(before.back() + (x >= least ? weight : 0));
  }
  for (double& share : before) share /= before.back();
  return before;
}

TEST(RowDrawTest, IdsShareTheNumbersInTheirOrder) {
  constexpr double kRounding = 1e-5;
  for (const size_t n : {2, 17, 1000, 1024, 1025, 7001}) {
    for (const float deviation : {0.3f, 3.0f}) {
      const std::vector<float> row = row_with_gaps(n, deviation);
      const float max = *std::max_element(row.begin(), row.end());
      for (const float floor : {kNoFloor, -1.5f * deviation}) {
        for (const float scale : {1.0f, 0.5f, 2.5f}) {
          const RowDraw draw(row, max, max + floor, scale);
          const std::vector<double> before = shares(row, max, max + floor, scale);
          for (double u = 0; u < 1; u += 0.00173) {
            const auto id = static_cast<size_t>(draw.at(u));
            ASSERT_GE(row[id], max + floor);
            ASSERT_LE(before[id], u + kRounding);
            ASSERT_GE(before[id + 1], u - kRounding);
            ASSERT_GT(before[id + 1], before[id]);
          }
        }
      }
    }
  }
}

TEST(RowDrawTest, BoundsTheMassOfTheWholeRow) {
  for (const size_t n : {1, 17, 1024, 7001}) {
    for (const float deviation : {0.1f, 3.0f}) {
      std::vector<float> row = row_with_gaps(n, deviation);
      row[0] = 0.5f;
      const float max = *std::max_element(row.begin(), row.end());
      double mass = 0;
      for (const float x : row) mass += std::exp(static_cast<double>(x - max));
      for (const float floor : {kNoFloor, -1.5f * deviation}) {
        for (const float scale : {1.0f, 0.5f, 1.25f, 40.0f}) {
          EXPECT_GE(RowDraw(row, max, max + floor, scale).most_mass(), mass) << n << " " << scale;
        }
      }
      if (deviation > 1) continue;
      EXPECT_LT(RowDraw(row, max, kNoFloor, 1.25f).most_mass(), 1.1 * mass) << n;
    }
  }
}

TEST(RowDrawTest, TheEndOfTheNumbersDrawsTheLastThatHasWeight) {
  std::vector<float> row(5000, kNoFloor);
  row[10] = row[2500] = 0;
  row[4000] = -5;
  for (const double u : {0.5, 0.9, 1 - 0x1p-53}) {
    EXPECT_EQ(RowDraw(row, 0, -1, 1).at(u), 2500) << u;
  }
  EXPECT_EQ(RowDraw(row, 0, kNoFloor, 1).at(1 - 0x1p-53), 4000);
  EXPECT_EQ(RowDraw(row, 0, kNoFloor, std::numeric_limits<float>::max()).at(0.7), 2500);
}

}  // namespace
}  // namespace bp

// Strips of bf16 in 12 bits, read back weight by weight.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/weights/pack_strips.hpp"
#include "backplane/half.hpp"

namespace bp::cpu {
namespace {

using Bf16Bits = std::vector<uint16_t>;  // [n_rows, n_columns]

Bf16Bits normal_bf16(uint32_t n_rows, uint32_t n_columns) {
  std::mt19937 random(n_rows * n_columns);
  std::normal_distribution<float> normal;
  Bf16Bits rows(size_t{n_rows} * n_columns);
  for (uint16_t& weight : rows) weight = f32_to_bf16(0.03f * normal(random));
  return rows;
}

std::vector<uint8_t> split_strip(const Bf16Bits& rows, uint32_t n_columns) {
  std::vector<uint8_t> strip(Bf16Split::strip_bytes(n_columns) + 1, 0x5a);
  const auto n_rows = static_cast<uint32_t>(rows.size() / n_columns);
  pack_bf16_strip(reinterpret_cast<const uint8_t*>(rows.data()), n_columns * sizeof(uint16_t),
                  n_rows, n_columns, Bf16Layout::kSplit, strip.data());
  EXPECT_EQ(strip.back(), 0x5a) << "it is longer than it says";
  return strip;
}

// What stands apart in it.
std::vector<Bf16Split::Exception> apart(const std::vector<uint8_t>& strip) {
  std::vector<Bf16Split::Exception> all;
  Bf16Split::Exception exception{};
  for (const uint8_t* from = strip.data() + Bf16Split::kExceptionsAt;; from += sizeof exception) {
    std::memcpy(&exception, from, sizeof exception);
    if (exception.block == Bf16Split::kNoBlock) return all;
    all.push_back(exception);
  }
}

// As products read it: [kStripRows, n_columns].
std::vector<float> joined(const std::vector<uint8_t>& strip, uint32_t n_columns) {
  constexpr uint32_t kBlockWeights = kBf16Columns * kStripRows;
  std::vector<uint16_t> pairs(size_t{n_columns} * kStripRows);
  for (uint32_t c = 0; c < n_columns; ++c) {
    const uint32_t pair = c / 2;
    const uint8_t* group = strip.data() + Bf16Split::blocks_at(n_columns) +
                           pair / Bf16Split::kGroupPairs * size_t{Bf16Split::kGroupBytes};
    for (uint32_t r = 0; r < kStripRows; ++r) {
      const uint32_t at = Bf16Split::byte_of(pair % Bf16Split::kGroupPairs, r, c % 2);
      const int nibble = group[Bf16Split::kNibblesAt + at % 64] >> (at < 64 ? 0 : 4) & 15;
      const int upper = strip[Bf16Split::kUpperBytesAt + static_cast<uint32_t>(nibble)];
      pairs[(size_t{pair} * kStripRows + r) * 2 + c % 2] =
          static_cast<uint16_t>(upper << 8 | group[at]);
    }
  }
  for (const Bf16Split::Exception& exception : apart(strip)) {
    pairs[size_t{exception.block} * kBlockWeights + exception.place] = exception.weight;
  }
  std::vector<float> weights(pairs.size());
  for (uint32_t r = 0; r < kStripRows; ++r) {
    float scale;
    std::memcpy(&scale, strip.data() + r * sizeof scale, sizeof scale);
    for (uint32_t c = 0; c < n_columns; ++c) {
      const uint16_t weight = pairs[(size_t{c / 2} * kStripRows + r) * 2 + c % 2];
      weights[size_t{r} * n_columns + c] = bf16_to_f32(weight) * scale;
    }
  }
  return weights;
}

void expect_kept(const Bf16Bits& rows, uint32_t n_columns) {
  const auto found = joined(split_strip(rows, n_columns), n_columns);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(f32_to_bf16(found[i]), rows[i]) << "row " << i / n_columns << ", " << i % n_columns;
  }
  for (size_t i = rows.size(); i < found.size(); ++i) ASSERT_EQ(found[i], 0);
}

TEST(PackBf16, KeepsEachWeight) {
  for (const uint32_t n_columns : {32u, 96u, 1024u, 4096u}) {
    for (const uint32_t n_rows : {1u, 11u, 16u})
      expect_kept(normal_bf16(n_rows, n_columns), n_columns);
  }
}

TEST(PackBf16, KeepsRowsOfAnySize) {
  constexpr uint32_t kColumns = 256;
  Bf16Bits rows = normal_bf16(16, kColumns);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<int>(i / kColumns);
    const float weight = std::ldexp(bf16_to_f32(rows[i]), 14 * row - 100);
    rows[i] = row == 4 ? uint16_t{0} : f32_to_bf16(weight);
  }
  rows[9] = f32_to_bf16(std::ldexp(1.0f, -102));
  for (uint32_t c = 0; c < kColumns; ++c) {  // up to either end of all exponents
    const auto less = static_cast<int>(c * 7 % 13);
    rows[5 * kColumns + c] = f32_to_bf16(std::ldexp(1.25f, -126 + less));
    rows[6 * kColumns + c] = f32_to_bf16(std::ldexp(-1.5f, 127 - less));
    rows[7 * kColumns + c] = f32_to_bf16(std::ldexp(1.75f, -126 + less + (c % 2 == 0 ? 1 : 0)));
  }
  expect_kept(rows, kColumns);
}

TEST(PackBf16, KeepsSmallWeightsZerosAndWhatIsNoNumber) {
  constexpr uint32_t kColumns = 1024;
  Bf16Bits rows = normal_bf16(16, kColumns);
  for (size_t i = 5; i < rows.size(); i += 1000) {
    rows[i] = f32_to_bf16(std::ldexp(1.0f, -12 - static_cast<int>(i / 1000)) * 1.328125f);
  }
  for (size_t i = 7; i < rows.size(); i += 50) rows[i] = i % 4 < 2 ? 0 : 0x8000;
  rows[70] = 0x7f80;
  rows[1700] = 0xff80;
  const auto found = joined(split_strip(rows, kColumns), kColumns);
  for (size_t i = 0; i < rows.size(); ++i) {
    const float expected = bf16_to_f32(rows[i]);
    ASSERT_EQ(found[i], expected) << i;  // either zero
  }
  rows[2000] = 0x7fc0;
  EXPECT_TRUE(std::isnan(joined(split_strip(rows, kColumns), kColumns)[2000]));
}

// So many weights of each row have so few exponents less than its greatest.
size_t count_less(const Bf16Bits& rows, uint32_t n_columns, int n_exponents) {
  const auto exponent = [](uint16_t weight) { return weight >> 7 & 0xff; };
  size_t n = 0;
  for (auto row = rows.begin(); row != rows.end(); row += n_columns) {
    const auto end = row + n_columns;
    const int greatest = exponent(*std::max_element(
        row, end, [&](uint16_t a, uint16_t b) { return exponent(a) < exponent(b); }));
    n += static_cast<size_t>(std::count_if(row, end, [&](uint16_t weight) {
      return weight != 0 && exponent(weight) <= greatest - n_exponents;
    }));
  }
  return n;
}

TEST(PackBf16, LeavesFewerApartWhereThereIsNoZero) {
  constexpr uint32_t kColumns = 4096;
  Bf16Bits rows = normal_bf16(16, kColumns);
  const size_t n_least = count_less(rows, kColumns, 14), n_others = count_less(rows, kColumns, 16);
  ASSERT_GT(n_least, n_others + 2);
  EXPECT_EQ(apart(split_strip(rows, kColumns)).size(), n_others);
  rows[4] = 0;
  EXPECT_EQ(apart(split_strip(rows, kColumns)).size(), n_others + 1);
  expect_kept(rows, kColumns);
  for (size_t i = 1; i <= n_least; ++i) rows[i * 100] = 0;
  EXPECT_EQ(apart(split_strip(rows, kColumns)).size(), count_less(rows, kColumns, 14));
  expect_kept(rows, kColumns);
}

// More small weights than there is room for: the least of them are lost.
TEST(PackBf16, LosesTheLeastAlone) {
  constexpr uint32_t kColumns = 512;
  Bf16Bits rows = normal_bf16(16, kColumns);
  for (uint16_t& weight : rows) weight |= f32_to_bf16(0x1p-10f);
  for (size_t i = 0; i < rows.size(); i += 3) {
    rows[i] = f32_to_bf16(std::ldexp(1.0f, -20 - static_cast<int>(i % 5)));
  }
  const auto found = joined(split_strip(rows, kColumns), kColumns);
  uint32_t n_lost = 0, n_kept = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float expected = bf16_to_f32(rows[i]);
    if (found[i] != expected) {
      ASSERT_EQ(found[i], 0);
      ASSERT_LT(expected, 0x1p-13f * 0.03f * 5);
      ++n_lost;
    } else if (i % 3 == 0) {
      ASSERT_EQ(i % 5, 0u) << "a lesser one is kept before";
      ++n_kept;
    }
  }
  EXPECT_EQ(n_kept, Bf16Split::n_exceptions(kColumns));
  EXPECT_GT(n_lost, 2000u);
}

}  // namespace
}  // namespace bp::cpu

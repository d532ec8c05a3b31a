// Each dot kernel of floats of each instruction set that runs here, against double precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/dtype.hpp"
#include "backplane/half.hpp"
#include "backplane/reference/decode.hpp"
#include "backplane/reference/encode.hpp"
#include "sdk/conformance/kinds/guarded_memory.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/dot_cases.hpp"

namespace bp::cpu {
namespace {

TEST(FloatDot, AgreesWithDoublePrecisionOnOddShapes) {
  for (const Isa isa : available_isas()) {
    for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16}) {
      const FloatDot dot = kernels_of(isa).float_dot[dtype - BP_DTYPE_F32];
      for (const uint32_t n_columns : {1u, 15u, 16u, 17u, 64u, 172u}) {
        constexpr uint32_t n_w = 7;
        constexpr uint32_t n_x = 6;
        const auto w = conformance::normal_values("w", n_w * n_columns);
        const auto x = conformance::normal_values("x", n_x * n_columns);
        std::vector<uint64_t> encoded(n_w * n_columns);
        ASSERT_TRUE(reference::encode_row(dtype, w.data(), w.size(), encoded.data()).ok());
        std::vector<float> rounded(w.size());
        ASSERT_TRUE(reference::decode_row(dtype, encoded.data(), w.size(), rounded.data()).ok());
        std::vector<float> y(n_x * n_w, NAN);
        dot(encoded.data(), row_bytes(dtype, n_columns), n_w, x.data(), n_columns, n_x, n_columns,
            y.data(), n_w);
        for (uint32_t t = 0; t < n_x; ++t) {
          for (uint32_t r = 0; r < n_w; ++r) {
            const Dot expected =
                exact_dot(rounded.data() + r * n_columns, x.data() + t * n_columns, n_columns);
            EXPECT_NEAR(y[t * n_w + r], expected.sum, 1e-6 * expected.magnitude)
                << isa_name(isa) << " " << dtype_name(dtype) << " columns " << n_columns;
          }
        }
      }
    }
  }
}

// Rows of activations as bf16_dot takes them, and as it has rounded them.
struct Bf16Rows {
  std::vector<uint8_t> panels;
  std::vector<float> values;
};

Bf16Rows pack_bf16(const Kernels& kernels, const std::vector<float>& x, uint32_t n,
                   uint32_t n_columns) {
  Bf16Rows rows;
  rows.panels.resize(x.size() * kernels.bf16_bytes);
  const Activations to{n, nullptr, 0, nullptr, rows.panels.data()};
  for (uint32_t t = 0; t < n; ++t) {
    pack_bf16_row(kernels, x.data() + size_t{t} * n_columns, n_columns, to, t);
  }
  for (const float value : x) rows.values.push_back(bf16_to_f32(f32_to_bf16(value)));
  return rows;
}

std::vector<Kernels> all_bf16_kernels() {
  std::vector<Kernels> all = all_kernels();
  std::erase_if(all, [](const Kernels& kernels) { return kernels.bf16_dot == nullptr; });
  return all;
}

TEST(Bf16Dot, AgreesWithDoublePrecisionAndDoesNotDependOnTheNumberOfRowsOrTheTuning) {
  uint32_t n_tested = 0;
  std::map<std::tuple<std::string_view, uint32_t, uint32_t>, std::vector<float>> last_of;
  for (const Kernels& kernels : all_bf16_kernels()) {
    SCOPED_TRACE(kernels.name);
    for (const uint32_t n_columns : {32u, 96u, 1056u, 2080u}) {
      for (const uint32_t n_w :
           {1u, kStripRows, 5u, 2 * kStripRows, kStripRows + 1, kStripRows + 11}) {
        const uint32_t n_strips = (n_w + kStripRows - 1) / kStripRows;
        const uint32_t y_stride = n_strips * kStripRows;
        const size_t row_bytes = n_columns * sizeof(uint16_t);
        auto w = conformance::normal_values("w", size_t{n_w} * n_columns);
        for (size_t i = 0; i < w.size(); ++i) {  // rows of other sizes, few weights of none
          w[i] = std::ldexp(w[i], -7 * static_cast<int>(i / n_columns % 4));
          if (i % 600 == 13) w[i] *= 0x1p-15f;
        }
        conformance::GuardedArray<uint16_t> encoded(w.size());
        ASSERT_TRUE(reference::encode_row(BP_DTYPE_BF16, w.data(), w.size(), encoded.data()).ok());
        const size_t strip_elements =
            bf16_strip_bytes(kernels.bf16_layout, n_columns) / sizeof(uint16_t);
        std::vector<uint16_t> strips(n_strips * strip_elements);
        conformance::GuardedArray<uint8_t> scratch(size_t{kBf16Strips} * kStripRows * n_columns *
                                                   kernels.bf16_bytes);
        uint8_t* const room = scratch.data();
        for (uint32_t s = 0; s < n_strips; ++s) {
          const size_t first = size_t{s} * kStripRows * n_columns;
          pack_bf16_strip(reinterpret_cast<const uint8_t*>(encoded.data() + first), row_bytes,
                          std::min(kStripRows, n_w - s * kStripRows), n_columns,
                          kernels.bf16_layout,
                          reinterpret_cast<uint8_t*>(strips.data() + s * strip_elements));
        }
        std::vector<float> decoded(w.size());
        ASSERT_TRUE(
            reference::decode_row(BP_DTYPE_BF16, encoded.data(), w.size(), decoded.data()).ok());
        // A row of sums of the same activations, whatever stands before it and the tuning.
        std::vector<float>& last = last_of[{kernels.name, n_columns, n_w}];
        for (const uint32_t n : {1u,  2u,  3u,  4u,  5u,  6u,  7u,  8u,  9u,  10u, 11u, 12u, 13u,
                                 14u, 16u, 17u, 22u, 24u, 26u, 27u, 37u, 39u, 40u, 48u, 53u, 70u}) {
          std::vector<float> x = conformance::normal_values("x", size_t{n} * n_columns);
          const auto own = conformance::normal_values("own", n_columns);
          std::ranges::copy(own, x.end() - n_columns);
          const Bf16Rows rows = pack_bf16(kernels, x, n, n_columns);
          std::vector<float> y(size_t{n} * y_stride, NAN);
          kernels.bf16_dot(Bf16Weights::in_rows(encoded.data(), row_bytes), n_w, rows.panels.data(),
                           n, n_columns, y.data(), y_stride, room);
          std::vector<float> by_strips(y.size(), NAN);
          kernels.bf16_dot(Bf16Weights::in_strips(strips.data(), kernels.bf16_layout, n_columns),
                           n_w, rows.panels.data(), n, n_columns, by_strips.data(), y_stride, room);
          for (uint32_t i = 0; i < n * n_w; ++i) {
            const uint32_t row = i / n_w, column = i % n_w;
            const float found = y[size_t{row} * y_stride + column];
            ASSERT_EQ(found, by_strips[size_t{row} * y_stride + column]);
            const Dot expected = exact_dot(decoded.data() + size_t{column} * n_columns,
                                           rows.values.data() + size_t{row} * n_columns, n_columns);
            ASSERT_NEAR(found, expected.sum, 2e-6 * expected.magnitude)
                << "row " << row << " of " << n << ", column " << column << " of " << n_w;
            ++n_tested;
          }
          const auto last_row = y.begin() + (n - 1) * y_stride;
          const std::vector<float> found(last_row, last_row + n_w);
          if (last.empty()) last = found;
          EXPECT_EQ(found, last) << n << " rows of " << n_columns;
        }
      }
    }
  }
  if (n_tested == 0) GTEST_SKIP() << "this processor has no bf16 products";
}

// Whatever a file of strips holds, nothing beyond the strips is read and nothing beside the room.
TEST(Bf16Dot, TakesStripsOfAnyBytes) {
  constexpr uint32_t kColumns = 1056, kRows = 2 * kStripRows;
  for (const Kernels& kernels : all_bf16_kernels()) {
    const size_t n_bytes = kBf16Strips * bf16_strip_bytes(kernels.bf16_layout, kColumns);
    for (const int byte : {0, 1, 0xff}) {
      conformance::GuardedArray<uint8_t> strips(n_bytes);
      std::memset(strips.data(), byte, n_bytes);
      strips.make_read_only();
      const size_t room = size_t{kRows} * kColumns * kernels.bf16_bytes;
      conformance::GuardedArray<uint8_t> scratch(room);
      for (const uint32_t n : {1u, 4u, 5u, 16u, 25u}) {
        const std::vector<float> x(size_t{n} * kColumns, 1.0f);
        const Bf16Rows rows = pack_bf16(kernels, x, n, kColumns);
        std::vector<float> y(size_t{n} * kRows);
        kernels.bf16_dot(Bf16Weights::in_strips(strips.data(), kernels.bf16_layout, kColumns),
                         kRows, rows.panels.data(), n, kColumns, y.data(), kRows, scratch.data());
      }
    }
  }
}

// Many rows go block by block of columns through the cache, in tiles of any width, few do not.
TEST(FloatDot, DoesNotDependOnTheNumberOfRows) {
  constexpr uint32_t n_x = 30;
  for (const Isa isa : available_isas()) {
    for (const bp_dtype dtype : {BP_DTYPE_F32, BP_DTYPE_F16, BP_DTYPE_BF16}) {
      const FloatDot dot = kernels_of(isa).float_dot[dtype - BP_DTYPE_F32];
      for (const uint32_t n_columns : {16u, 256u, 600u, 1024u}) {
        const auto values = conformance::normal_values("w", kStripRows * n_columns);
        const auto x = conformance::normal_values("x", n_x * n_columns);
        const size_t stride = row_bytes(dtype, n_columns);
        std::vector<uint8_t> w(kStripRows * stride);
        ASSERT_TRUE(reference::encode_row(dtype, values.data(), values.size(), w.data()).ok());
        std::vector<float> alone(n_x * kStripRows);
        for (uint32_t t = 0; t < n_x; ++t) {
          dot(w.data(), stride, kStripRows, x.data() + t * n_columns, n_columns, 1, n_columns,
              alone.data() + t * kStripRows, kStripRows);
        }
        for (const uint32_t n : {2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 13u, n_x}) {
          std::vector<float> together(n * kStripRows);
          dot(w.data(), stride, kStripRows, x.data(), n_columns, n, n_columns, together.data(),
              kStripRows);
          EXPECT_TRUE(std::ranges::equal(together, std::span(alone).first(together.size())))
              << isa_name(isa) << " " << dtype_name(dtype) << ", " << n << " rows of " << n_columns;
        }
      }
    }
  }
}

}  // namespace
}  // namespace bp::cpu

// Each kernel for strips of quantised weights, of each instruction set that runs here, against the
// decoded weights multiplied in double precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/round_up.hpp"
#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/rows/panels.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"
#include "sdk/conformance/kinds/guarded_memory.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/dot_cases.hpp"
#include "tests/backends/cpu/tunings.hpp"

namespace bp::cpu {
namespace {

// What rounding half sums to 16 bits may change where minimums multiply them.
double half_sums_rounding(const float* w, const float* x, uint32_t n) {
  constexpr uint32_t kHalf = kPanelColumns / 2;
  double largest_sum = 0, minimums = 0;
  for (uint32_t i = 0; i < n; i += kHalf) {
    double sum = 0;
    float largest = 0;
    for (uint32_t k = i; k < i + kHalf; ++k) {
      sum += double{x[k]};
      largest = std::max(largest, std::abs(w[k]));
    }
    largest_sum = std::max(largest_sum, std::abs(sum));
    minimums += double{largest};
  }
  return largest_sum / 65534 * minimums;
}

void dot(const Kernels& kernels, StripLayout layout, const uint8_t* strip, uint32_t n_columns,
         const Panel& panel, uint32_t n, float* y) {
  if (n < kTileRows) {
    const StripDot dot = kernels.strip_dot[static_cast<int>(layout)][n];
    ASSERT_NE(dot, nullptr);
    return dot(strip, true, n_columns, panel.words.data(), y, kStripRows);
  }
  conformance::GuardedArray<uint8_t> scratch(round_up(tile_scratch_bytes(n_columns), 64));
  const TileDot dot = kernels.tile_dot[static_cast<int>(layout)];
  ASSERT_NE(dot, nullptr);
  dot({strip, 0, 1}, n_columns, panel.words.data(), panel.words.size(), 1, y, kStripRows,
      scratch.data());
}

// rows: of the type; x_of(n): activations [n, n_columns].
template <class F>
void test_strip(const Kernels& kernels, bp_dtype dtype, const std::vector<uint8_t>& rows,
                uint32_t n_rows, uint32_t n_columns, F&& x_of) {
  const StripLayout layout = *strip_layout_of(dtype);
  const size_t stride = row_bytes(dtype, n_columns);
  conformance::GuardedArray<uint8_t> strip(strip_bytes(layout, n_columns));
  pack_strip(dtype, rows.data(), stride, n_rows, n_columns, strip.data());
  std::vector<float> decoded(size_t{n_rows} * n_columns);
  for (uint32_t r = 0; r < n_rows; ++r) {
    ASSERT_TRUE(reference::decode_row(dtype, rows.data() + r * stride, n_columns,
                                      decoded.data() + size_t{r} * n_columns)
                    .ok());
  }
  for (const uint32_t n : kPanelWidths) {
    if (n > kernels.max_panel_rows) continue;
    const Panel panel = make_panel(kernels, x_of(n), n, n_columns);
    std::vector<float> y(n * kStripRows, NAN);
    dot(kernels, layout, strip.data(), n_columns, panel, n, y.data());
    for (uint32_t t = 0; t < n; ++t) {
      for (uint32_t r = 0; r < n_rows; ++r) {
        const float* w_row = decoded.data() + size_t{r} * n_columns;
        const float* x_row = panel.values.data() + size_t{t} * n_columns;
        const Dot expected = exact_dot(w_row, x_row, n_columns);
        const double of_half_sums =
            layout == StripLayout::kQ2_K ? half_sums_rounding(w_row, x_row, n_columns) : 0;
        // Scale and minimum terms of a block cancel, and their sum is what is rounded.
        EXPECT_NEAR(y[t * kStripRows + r], expected.sum,
                    2e-5 * expected.magnitude + 1e-6 + of_half_sums)
            << dtype_name(dtype) << " width " << n << " row " << r << " of " << n_columns;
      }
      for (uint32_t r = n_rows; r < kStripRows; ++r) EXPECT_EQ(y[t * kStripRows + r], 0.0f);
    }
  }
}

void test_strip(const Kernels& kernels, bp_dtype dtype, uint32_t n_rows, uint32_t n_columns) {
  test_strip(kernels, dtype, random_rows(dtype, n_rows, n_columns), n_rows, n_columns,
             [&](uint32_t n) { return activations(n, n_columns); });
}

TEST(StripDot, AgreesWithDecodedWeights) {
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(isa_name(isa));
    for (const bp_dtype dtype : block_types()) {
      const uint32_t block = dtype_info(dtype).block_elements;
      for (const uint32_t n_blocks : {1u, 2u, 3u, 5u}) {
        test_strip(kernels_of(isa), dtype, kStripRows, n_blocks * block);
      }
      test_strip(kernels_of(isa), dtype, 5, 3 * block);
    }
  }
}

// Sums in integers of few bits have room for the largest quants times the largest activations.
TEST(StripDot, HasRoomForTheLargestSums) {
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(isa_name(isa));
    for (const bp_dtype dtype : block_types()) {
      const uint32_t n_columns = 2 * std::max(dtype_info(dtype).block_elements, kPanelColumns);
      for (const int byte : {0x00, 0x77, 0x7f, 0x80, 0x88, 0xff}) {
        for (const float x : {1.0f, -1.0f}) {
          const auto rows = random_rows(dtype, kStripRows, n_columns, byte, byte);
          test_strip(kernels_of(isa), dtype, rows, kStripRows, n_columns,
                     [&](uint32_t n) { return std::vector<float>(size_t{n} * n_columns, x); });
        }
      }
    }
  }
}

// The same sums in the same order, whatever stands beside a row and however weights are asked for.
TEST(StripDot, DoesNotDependOnThePanelsWidthOrTheTuning) {
  constexpr uint32_t n_columns = 768;
  for (const Isa isa : available_isas()) {
    const auto ways = kernels_by_tuning(isa);
    const std::vector<float> x = conformance::normal_values("width", n_columns);
    for (const bp_dtype dtype : block_types()) {
      const StripLayout layout = *strip_layout_of(dtype);
      const std::vector<uint8_t> strip = random_strips(dtype, 1, n_columns);
      std::vector<float> alone;
      for (const uint32_t n : {1u, 2u, 3u, 4u, 6u, kTileRows}) {
        if (n > ways[0].max_panel_rows) continue;
        std::vector<float> rows_x = activations(n, n_columns);
        std::ranges::copy(x, rows_x.end() - n_columns);
        const Panel panel = make_panel(ways[0], rows_x, n, n_columns);
        for (const Kernels& kernels : ways) {
          std::vector<float> y(n * kStripRows);
          dot(kernels, layout, strip.data(), n_columns, panel, n, y.data());
          const std::vector<float> own(y.end() - kStripRows, y.end());
          if (alone.empty()) alone = own;
          EXPECT_EQ(own, alone) << isa_name(isa) << " " << dtype_name(dtype) << " width " << n;
        }
      }
    }
  }
}

// Two strips together give what each gives alone, and nothing else is written.
TEST(StripPairDot, GivesWhatEachStripGives) {
  constexpr uint32_t n_columns = 768;
  constexpr size_t stride = 3 * kStripRows;
  uint32_t n_tested = 0;
  for (const Kernels& kernels : all_kernels()) {
    for (const bp_dtype dtype : block_types()) {
      const auto layout = static_cast<int>(*strip_layout_of(dtype));
      const size_t bytes = strip_bytes(*strip_layout_of(dtype), n_columns);
      const std::vector<uint8_t> strips = random_strips(dtype, 2, n_columns);
      for (const uint32_t n : kPanelWidths) {
        if (n >= kTileRows || kernels.strip_pair_dot[layout][n] == nullptr) continue;
        const Panel panel = make_panel(kernels, activations(n, n_columns), n, n_columns);
        std::vector<float> apart(n * stride, -1), together(n * stride, -1);
        for (const bool is_first : {true, false}) {
          for (uint32_t s = 0; s < 2; ++s) {
            kernels.strip_dot[layout][n](strips.data() + s * bytes, is_first, n_columns,
                                         panel.words.data(), apart.data() + s * kStripRows, stride);
          }
          kernels.strip_pair_dot[layout][n](strips.data(), bytes,
                                            {strips.data(), is_first ? 3u : 0u}, n_columns,
                                            panel.words.data(), together.data(), stride);
          EXPECT_EQ(together, apart) << kernels.name << " " << dtype_name(dtype) << " width " << n;
          ++n_tested;
        }
      }
    }
  }
  if (n_tested == 0)
    GTEST_SKIP() << "no instruction set of this processor multiplies strips in pairs";
}

// A panel of two strips' products, as packed and as unpacked kernels give them.
struct PairProducts {
  static constexpr size_t kStride = 2 * kStripRows;
  PairProducts(const Kernels& kernels, StripLayout layout, const std::vector<uint8_t>& strips,
               uint32_t n, uint32_t n_columns)
      : panel(make_panel(kernels, activations(n, n_columns), n, n_columns)),
        packed(n * kStride, -1),
        unpacked(n * kStride, NAN) {
    for (uint32_t s = 0; s < 2; ++s) {
      kernels.strip_dot[static_cast<int>(layout)][n](
          strips.data() + s * strip_bytes(layout, n_columns), true, n_columns, panel.words.data(),
          packed.data() + s * kStripRows, kStride);
    }
  }
  Panel panel;
  std::vector<float> packed, unpacked;
};

// Of the panels that take strips, tiles apart.
uint32_t widest_panel(const Kernels& kernels) {
  return std::min(kernels.max_panel_rows, kMaxPanelRows);
}

// A panel of the most rows unpacks, part by part, what one of n rows finds.
void expect_the_same_unpacked(const Kernels& kernels, bp_dtype dtype, uint32_t n,
                              uint32_t n_columns) {
  const StripLayout layout = *strip_layout_of(dtype);
  const auto of = static_cast<int>(layout);
  const std::vector<uint8_t> strips = random_strips(dtype, 2, n_columns);
  PairProducts first(kernels, layout, strips, widest_panel(kernels), n_columns);
  PairProducts later(kernels, layout, strips, n, n_columns);
  const auto memory = AlignedBuffer::allocate(size_t{2} * kUnpackedBytes, "unpacked").value();
  StripPart part{0, 0, n_columns / kPanelColumns};
  for (; part.begin < part.n_blocks; part.begin = part.end) {
    part.end = std::min(part.begin + kUnpackedBlocks, part.n_blocks);
    kernels.unpacking_pair_dot[of](strips.data(), strip_bytes(layout, n_columns), part,
                                   {strips.data(), 3}, first.panel.words.data(),
                                   first.unpacked.data(), PairProducts::kStride, memory.data());
    kernels.unpacked_pair_dot[of][n](memory.data(), part, {strips.data(), 1},
                                     later.panel.words.data(), later.unpacked.data(),
                                     PairProducts::kStride);
  }
  EXPECT_EQ(first.unpacked, first.packed) << kernels.name << " " << dtype_name(dtype);
  EXPECT_EQ(later.unpacked, later.packed)
      << kernels.name << " " << dtype_name(dtype) << " " << n_columns << " width " << n;
}

// Parts of whole records and a part of one.
TEST(UnpackedPairDot, GivesTheSameProducts) {
  uint32_t n_tested = 0;
  for (const Kernels& kernels : all_kernels()) {
    for (const bp_dtype dtype : block_types()) {
      const auto layout = static_cast<int>(*strip_layout_of(dtype));
      const UnpackedPairDot* dots = kernels.unpacked_pair_dot[layout];
      ASSERT_EQ(kernels.unpacking_pair_dot[layout] == nullptr,
                dots[widest_panel(kernels)] == nullptr);
      for (const uint32_t n_columns : {96u, 768u, 2304u}) {
        if (n_columns % dtype_info(dtype).block_elements != 0) continue;
        for (uint32_t n = 1; n <= kMaxPanelRows; ++n) {
          if (dots[n] == nullptr) continue;
          expect_the_same_unpacked(kernels, dtype, n, n_columns);
          ++n_tested;
        }
      }
    }
  }
  if (n_tested == 0) GTEST_SKIP() << "no instruction set of this processor unpacks strips";
}

// Rows enough for strips to be unpacked and too few, an odd number of strips, one part of columns
// and several.
TEST(PreparedWeight, GivesTheSameProductsHoweverWeightsAreAskedFor) {
  constexpr uint32_t n_strips = 5;
  constexpr size_t stride = n_strips * kStripRows;
  for (const Isa isa : available_isas()) {
    for (const auto& shape : {std::pair{BP_DTYPE_Q6_K, 768u}, std::pair{BP_DTYPE_Q5_0, 96u},
                              std::pair{BP_DTYPE_Q4_K, 256u}, std::pair{BP_DTYPE_Q6_K, 16384u}}) {
      const bp_dtype dtype = shape.first;
      const uint32_t n_columns = shape.second;
      const auto bytes = random_rows(dtype, n_strips * kStripRows, n_columns);
      const WeightRows rows{bytes.data(), row_bytes(dtype, n_columns), dtype, n_strips * kStripRows,
                            n_columns};
      PreparedWeight weight(rows, Prepare::kCache, Bf16Layout::kRows);
      WeightArena arena;
      auto strips = arena.allocate(weight.packed_bytes()).value();
      weight.pack_into(0, n_strips, strips.get());
      weight.place(std::move(strips));
      for (const uint32_t n : {11u, 12u, 15u, 16u, 24u, 31u, 32u, 41u, 128u}) {
        const std::vector<float> x = activations(n, n_columns);
        std::vector<float> expected;
        for (const Kernels& kernels : kernels_by_tuning(isa)) {
          const uint32_t width = kernels.max_panel_rows;
          std::vector<int32_t> panels(panels_words(n, width, n_columns));
          for_each_panel(0, n, width, n_columns, [&](const PanelPlace& place) {
            for (uint32_t t = 0; t < place.n; ++t) {
              kernels.quantize_row(x.data() + size_t{place.first + t} * n_columns, n_columns,
                                   panels.data() + place.word, place.n, t,
                                   max_seconds(place.n, n_columns));
            }
          });
          const auto scratch =
              AlignedBuffer::allocate(weight.scratch_bytes(kernels), "scratch").value();
          std::vector<float> y(n * stride, -1);
          const Activations prepared{n, x.data(), n_columns, panels.data(), nullptr};
          weight.dot_strips(kernels, 0, n_strips, prepared, 0, n, y.data(), stride, scratch.data());
          if (expected.empty()) expected = y;
          EXPECT_EQ(y, expected) << kernels.name << " " << dtype_name(dtype) << " " << n << " rows";
        }
      }
    }
  }
}

// Two panels of tile rows against six strips give what each panel gives with each strip; more
// strips and columns than are multiplied in one go.
TEST(TileDot, DoesNotDependOnWhatIsComputedTogether) {
  constexpr uint32_t n_columns = 1280;
  constexpr uint32_t n_strips = 6;
  constexpr uint32_t n_panels = 2;
  constexpr size_t stride = n_strips * kStripRows;
  uint32_t n_tested = 0;
  for (const Isa isa : available_isas()) {
    const Kernels& kernels = kernels_of(isa);
    if (kernels.max_panel_rows < kTileRows) continue;
    std::vector<int32_t> panels;
    for (const char* seed : {"first", "second"}) {
      std::vector<float> x = conformance::normal_values(seed, size_t{kTileRows} * n_columns);
      for (const uint32_t column : {0u, 300u, 301u, 1279u}) x[3 * n_columns + column] = 1000;
      const Panel panel = make_panel(kernels, x, kTileRows, n_columns);
      panels.insert(panels.end(), panel.words.begin(), panel.words.end());
    }
    const size_t words = panels.size() / n_panels;
    conformance::GuardedArray<uint8_t> room(round_up(tile_scratch_bytes(n_columns), 64));
    uint8_t* const scratch = room.data();
    for (const bp_dtype dtype : block_types()) {
      const StripLayout layout = *strip_layout_of(dtype);
      const size_t bytes = strip_bytes(layout, n_columns);
      const std::vector<uint8_t> strips = random_strips(dtype, n_strips, n_columns);
      const TileDot dot = kernels.tile_dot[static_cast<int>(layout)];
      std::vector<float> together(n_panels * kTileRows * stride, NAN);
      dot({strips.data(), bytes, n_strips}, n_columns, panels.data(), words, n_panels,
          together.data(), stride, scratch);
      std::vector<float> by_panel(together.size(), NAN);
      std::vector<float> apart(together.size(), NAN);
      for (uint32_t p = 0; p < n_panels; ++p) {
        dot({strips.data(), bytes, n_strips}, n_columns, panels.data() + p * words, words, 1,
            by_panel.data() + p * kTileRows * stride, stride, scratch);
        for (uint32_t s = 0; s < n_strips; ++s) {
          dot({strips.data() + s * bytes, bytes, 1}, n_columns, panels.data() + p * words, words, 1,
              apart.data() + p * kTileRows * stride + s * kStripRows, stride, scratch);
        }
      }
      EXPECT_EQ(together, by_panel) << dtype_name(dtype);
      EXPECT_EQ(together, apart) << dtype_name(dtype);
      ++n_tested;
    }
  }
  if (n_tested == 0) GTEST_SKIP() << "this processor has no tile registers";
}

}  // namespace
}  // namespace bp::cpu

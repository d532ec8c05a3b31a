// Each dot kernel of each instruction set that runs here, against the decoded weights multiplied in
// double precision.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <tuple>

#include "backends/cpu/aligned_buffer.hpp"
#include "backends/cpu/cpu_features.hpp"
#include "backends/cpu/round_up.hpp"
#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/rows/panels.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "backends/cpu/weights/prepared_weight.hpp"
#include "backplane/dtype.hpp"
#include "backplane/half.hpp"
#include "backplane/reference/decode.hpp"
#include "backplane/reference/encode.hpp"
#include "sdk/conformance/kinds/guarded_memory.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/tunings.hpp"

namespace bp::cpu {
namespace {

std::vector<bp_dtype> block_types() {
  std::vector<bp_dtype> types;
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (is_block_quantised(t)) types.push_back(t);
  }
  return types;
}

// Gives a block of random bytes scales of ordinary size.
void set_scales(bp_dtype dtype, std::mt19937& engine, uint8_t* block) {
  std::normal_distribution<float> scale(0.0f, 0.02f);
  std::uniform_int_distribution<int> exponent(115, 125);
  const auto set_f16 = [&](uint32_t offset) {
    const uint16_t half = f32_to_f16(scale(engine));
    std::memcpy(block + offset, &half, sizeof half);
  };
  switch (dtype) {
    case BP_DTYPE_Q4_1:
    case BP_DTYPE_Q5_1:
    case BP_DTYPE_Q4_K:
    case BP_DTYPE_Q5_K:
      set_f16(0);
      return set_f16(2);
    case BP_DTYPE_Q6_K:
      return set_f16(208);
    case BP_DTYPE_Q2_K:
      set_f16(80);
      return set_f16(82);
    case BP_DTYPE_Q3_K:
      return set_f16(108);
    case BP_DTYPE_TQ1_0:
      return set_f16(52);
    case BP_DTYPE_TQ2_0:
      return set_f16(64);
    case BP_DTYPE_Q8_K: {
      const float d = scale(engine);
      std::memcpy(block, &d, sizeof d);
      return;
    }
    case BP_DTYPE_IQ1_M: {  // a nibble of the scale above each 16 bits
      const uint16_t half = f32_to_f16(scale(engine));
      for (int k = 0; k < 4; ++k) {
        uint8_t& byte = block[49 + 2 * k];
        byte = static_cast<uint8_t>((byte & 15) | (half >> (4 * k) & 15) << 4);
      }
      return;
    }
    case BP_DTYPE_MXFP4:
      block[0] = static_cast<uint8_t>(exponent(engine));
      return;
    case BP_DTYPE_NVFP4:
      for (int g = 0; g < 4; ++g) block[g] &= 0x77;  // not NaN
      return;
    default:
      set_f16(0);
  }
}

// Rows of blocks of random bytes from least to largest, with scales of ordinary size.
std::vector<uint8_t> random_rows(bp_dtype dtype, uint32_t n_rows, uint32_t n_columns, int least = 0,
                                 int largest = 255) {
  std::mt19937 engine(dtype * 1000 + n_columns);
  std::uniform_int_distribution<int> byte(least, largest);
  std::vector<uint8_t> rows(n_rows * row_bytes(dtype, n_columns));
  for (uint8_t& b : rows) b = static_cast<uint8_t>(byte(engine));
  const uint32_t block_bytes = dtype_info(dtype).block_bytes;
  for (size_t block = 0; block < rows.size(); block += block_bytes) {
    set_scales(dtype, engine, rows.data() + block);
  }
  return rows;
}

// Strips of such rows, one after another.
std::vector<uint8_t> random_strips(bp_dtype dtype, uint32_t n_strips, uint32_t n_columns) {
  const std::vector<uint8_t> rows = random_rows(dtype, n_strips * kStripRows, n_columns);
  const size_t row = row_bytes(dtype, n_columns);
  const size_t bytes = strip_bytes(*strip_layout_of(dtype), n_columns);
  std::vector<uint8_t> strips(n_strips * bytes);
  for (uint32_t s = 0; s < n_strips; ++s) {
    pack_strip(dtype, rows.data() + s * kStripRows * row, row, kStripRows, n_columns,
               strips.data() + s * bytes);
  }
  return strips;
}

struct Panel {
  std::vector<int32_t> words;
  std::vector<float> values;  // [n, n_columns] as the panel has them
};

float float_at(const int32_t* words, uint32_t index) {
  float x;
  std::memcpy(&x, words + index, sizeof x);
  return x;
}

int8_t quant_in(const int32_t* record, uint32_t n, uint32_t t, uint32_t column) {
  const uint32_t place = n == kTileRows ? 8 * t + column / 4 : column / 4 * n + t;
  const auto word = static_cast<uint32_t>(record[place]);
  return static_cast<int8_t>(word >> (8 * (column % 4)));
}

float value_in(const int32_t* record, uint32_t n, uint32_t t, uint32_t column) {
  return float_at(record, 8 * n + t) * quant_in(record, n, t, column);
}

// A panel of x [n, n_columns], and its values as kernels are to understand them.
Panel make_panel(const Kernels& kernels, const std::vector<float>& x, uint32_t n,
                 uint32_t n_columns) {
  Panel panel;
  panel.words.resize(panel_words(n, n_columns));
  panel.values.resize(x.size());
  for (uint32_t t = 0; t < n; ++t) {
    kernels.quantize_row(x.data() + size_t{t} * n_columns, n_columns, panel.words.data(), n, t,
                         max_seconds(n, n_columns));
  }
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const int32_t* records = panel.words.data() + panel_records_word(n_blocks, n);
  for (uint32_t t = 0; t < n; ++t) {
    for (uint32_t c = 0; c < n_columns; ++c) {
      const uint32_t block = c / kPanelColumns;
      const int32_t second = panel.words[1 + block];
      float& value = panel.values[size_t{t} * n_columns + c];
      value = value_in(records + block * kPanelWords * n, n, t, c % kPanelColumns);
      if (second < 0) continue;
      value += value_in(records + (n_blocks + static_cast<uint32_t>(second)) * kPanelWords * n, n,
                        t, c % kPanelColumns);
    }
  }
  return panel;
}

// Normal values, and in row 1 of wide ones an outlier.
std::vector<float> activations(uint32_t n, uint32_t n_columns) {
  std::vector<float> x = conformance::normal_values("activations", size_t{n} * n_columns);
  if (n > 1 && n_columns > 512) x[n_columns + 300] = 1000;
  return x;
}

struct Dot {
  double sum = 0;
  double magnitude = 0;  // of all terms
};
Dot exact_dot(const float* w, const float* x, uint32_t n) {
  Dot dot;
  for (uint32_t i = 0; i < n; ++i) {
    const double term = double{w[i]} * double{x[i]};
    dot.sum += term;
    dot.magnitude += std::abs(term);
  }
  return dot;
}

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

std::vector<Kernels> all_kernels() {
  std::vector<Kernels> all;
  for (const Isa isa : available_isas()) {
    for (const Kernels& kernels : kernels_by_tuning(isa)) all.push_back(kernels);
  }
  return all;
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

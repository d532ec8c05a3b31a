#include "tests/backends/cpu/dot_cases.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/rows/activation_layout.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "backplane/half.hpp"
#include "sdk/conformance/support/random_values.hpp"
#include "tests/backends/cpu/tunings.hpp"

namespace bp::cpu {

namespace {

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

float value_in(const int32_t* record, uint32_t n, uint32_t t, uint32_t column) {
  return float_at(record, 8 * n + t) * quant_in(record, n, t, column);
}

}  // namespace

std::vector<Kernels> all_kernels() {
  std::vector<Kernels> all;
  for (const Isa isa : available_isas()) {
    for (const Kernels& kernels : kernels_by_tuning(isa)) all.push_back(kernels);
  }
  return all;
}

std::vector<bp_dtype> block_types() {
  std::vector<bp_dtype> types;
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) {
    if (is_block_quantised(t)) types.push_back(t);
  }
  return types;
}

std::vector<uint8_t> random_rows(bp_dtype dtype, uint32_t n_rows, uint32_t n_columns, int least,
                                 int largest) {
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

std::vector<float> activations(uint32_t n, uint32_t n_columns) {
  std::vector<float> x = conformance::normal_values("activations", size_t{n} * n_columns);
  if (n > 1 && n_columns > 512) x[n_columns + 300] = 1000;
  return x;
}

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

Dot exact_dot(const float* w, const float* x, uint32_t n) {
  Dot dot;
  for (uint32_t i = 0; i < n; ++i) {
    const double term = double{w[i]} * double{x[i]};
    dot.sum += term;
    dot.magnitude += std::abs(term);
  }
  return dot;
}

}  // namespace bp::cpu

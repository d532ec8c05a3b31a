// One bit and a bit: 8 values of -1, 0, 1 from a code book, all shifted by an eighth up or down.
// iq1_s, iq1_m.

#include "backplane/reference/codebooks.hpp"
#include "core/quantize/block.hpp"
#include "core/quantize/codebook.hpp"
#include "core/quantize/encoders.hpp"

namespace bp::quantize {

namespace {

constexpr size_t kEntries = 2048;
constexpr float kShifts[] = {0.125f, -0.125f};  // by the bit that says which

float element(size_t entry, size_t j) {
  return static_cast<float>(static_cast<int8_t>(reference::kIq1Grid[entry] >> (8 * j) & 0xff));
}

// One table after the other: [2, 8, kEntries].
std::vector<float> variants_by_group() {
  std::vector<float> values;
  for (const float shift : kShifts) {
    for (size_t j = 0; j < 8; ++j) {
      for (size_t k = 0; k < kEntries; ++k) values.push_back(element(k, j) + shift);
    }
  }
  return values;
}

// One table of both, the entries shifted down behind those shifted up: [8, 2 * kEntries].
std::vector<float> variants_by_entry() {
  std::vector<float> values;
  for (size_t j = 0; j < 8; ++j) {
    for (const float shift : kShifts) {
      for (size_t k = 0; k < kEntries; ++k) values.push_back(element(k, j) + shift);
    }
  }
  return values;
}

}  // namespace

void encode_block_iq1_s(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{8, kEntries, 2, 32, 1.0f, 7, variants_by_group()};
  const CodebookBlock fit = fit_codebook(shape, in, weights);
  store_f16(block, fit.d);
  for (size_t group = 0; group < 8; ++group) {
    int word = fit.level[group] << 12 | fit.variant[group] << 15;
    for (size_t l = 0; l < 4; ++l) {
      const int entry = fit.entry[4 * group + l];
      block[2 + 4 * group + l] = static_cast<uint8_t>(entry);
      word |= (entry >> 8) << (3 * l);
    }
    store(block + 34 + 2 * group, static_cast<uint16_t>(word));
  }
}

void encode_block_iq1_m(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{8, 2 * kEntries, 1, 16, 1.0f, 7, variants_by_entry()};
  const CodebookBlock fit = fit_codebook(shape, in, weights);
  std::memset(block, 0, 56);
  for (size_t i = 0; i < 32; ++i) {
    // Bits 8..11: three of the index and the shift.
    block[i] = static_cast<uint8_t>(fit.entry[i]);
    block[32 + i / 2] =
        static_cast<uint8_t>(block[32 + i / 2] | (fit.entry[i] >> 8) << (i % 2 * 4));
  }
  const uint32_t d = f32_to_f16(fit.d);
  for (size_t word = 0; word < 4; ++word) {
    uint32_t bits = (d >> (4 * word) & 0xf) << 12;
    for (size_t k = 0; k < 4; ++k)
      bits |= static_cast<uint32_t>(fit.level[4 * word + k]) << (3 * k);
    store(block + 48 + 2 * word, static_cast<uint16_t>(bits));
  }
}

}  // namespace bp::quantize

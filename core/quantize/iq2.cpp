// Two bits and a bit: 8 magnitudes from a code book, signs apart. iq2_xxs, iq2_xs, iq2_s.

#include "backplane/reference/codebooks.hpp"
#include "core/quantize/block.hpp"
#include "core/quantize/codebook.hpp"
#include "core/quantize/encoders.hpp"

namespace bp::quantize {

namespace {

constexpr float kUnit = 0.125f;

// A nibble for 16 elements, low first.
void store_levels(const CodebookBlock& fit, uint8_t* scales) {
  for (size_t i = 0; i < 8; ++i) {
    scales[i] = static_cast<uint8_t>(fit.level[2 * i] | fit.level[2 * i + 1] << 4);
  }
}

}  // namespace

void encode_block_iq2_xxs(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{
      8, 256, 1, 32, kUnit, 15, codebook_values(reference::kIq2XxsGrid)};
  const Signs signs = take_even_signs(in, weights);
  const CodebookBlock fit = fit_codebook(shape, signs.magnitudes.data(), weights);
  store_f16(block, fit.d);
  for (size_t group = 0; group < 8; ++group) {
    uint8_t* index = block + 2 + 8 * group;
    uint32_t word = static_cast<uint32_t>(fit.level[group]) << 28;
    for (size_t l = 0; l < 4; ++l) {
      index[l] = static_cast<uint8_t>(fit.entry[4 * group + l]);
      word |= static_cast<uint32_t>(signs.bits[4 * group + l] & 127) << (7 * l);
    }
    store(index + 4, word);
  }
}

void encode_block_iq2_xs(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{
      8, 512, 1, 16, kUnit, 15, codebook_values(reference::kIq2XsGrid)};
  const Signs signs = take_even_signs(in, weights);
  const CodebookBlock fit = fit_codebook(shape, signs.magnitudes.data(), weights);
  store_f16(block, fit.d);
  for (size_t i = 0; i < 32; ++i) {
    store(block + 2 + 2 * i, static_cast<uint16_t>(fit.entry[i] | (signs.bits[i] & 127) << 9));
  }
  store_levels(fit, block + 66);
}

void encode_block_iq2_s(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{
      8, 1024, 1, 16, kUnit, 15, codebook_values(reference::kIq2SGrid)};
  const Signs signs = take_signs(in);
  const CodebookBlock fit = fit_codebook(shape, signs.magnitudes.data(), weights);
  std::memset(block, 0, 82);
  store_f16(block, fit.d);
  for (size_t i = 0; i < 32; ++i) {
    block[2 + i] = static_cast<uint8_t>(fit.entry[i]);
    block[34 + i] = signs.bits[i];
    block[66 + i / 4] =
        static_cast<uint8_t>(block[66 + i / 4] | (fit.entry[i] >> 8) << (i % 4 * 2));
  }
  store_levels(fit, block + 74);
}

}  // namespace bp::quantize

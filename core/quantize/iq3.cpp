// Three bits and a bit: 4 magnitudes from a code book, signs apart. iq3_xxs, iq3_s.

#include "backplane/reference/codebooks.hpp"
#include "core/quantize/block.hpp"
#include "core/quantize/codebook.hpp"
#include "core/quantize/encoders.hpp"

namespace bp::quantize {

void encode_block_iq3_xxs(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{
      4, 256, 1, 32, 0.25f, 15, codebook_values(reference::kIq3XxsGrid)};
  const Signs signs = take_even_signs(in, weights);
  const CodebookBlock fit = fit_codebook(shape, signs.magnitudes.data(), weights);
  store_f16(block, fit.d);
  for (size_t i = 0; i < 64; ++i) block[2 + i] = static_cast<uint8_t>(fit.entry[i]);
  for (size_t group = 0; group < 8; ++group) {
    uint32_t word = static_cast<uint32_t>(fit.level[group]) << 28;
    for (size_t l = 0; l < 4; ++l) {
      word |= static_cast<uint32_t>(signs.bits[4 * group + l] & 127) << (7 * l);
    }
    store(block + 66 + 4 * group, word);
  }
}

void encode_block_iq3_s(const float* in, const float* weights, uint8_t* block) {
  static const CodebookShape shape{4, 512, 1, 32, 1.0f, 15, codebook_values(reference::kIq3SGrid)};
  const Signs signs = take_signs(in);
  const CodebookBlock fit = fit_codebook(shape, signs.magnitudes.data(), weights);
  std::memset(block, 0, 110);
  store_f16(block, fit.d);
  for (size_t i = 0; i < 64; ++i) {
    block[2 + i] = static_cast<uint8_t>(fit.entry[i]);
    block[66 + i / 8] = static_cast<uint8_t>(block[66 + i / 8] | (fit.entry[i] >> 8) << (i % 8));
  }
  std::memcpy(block + 74, signs.bits.data(), signs.bits.size());
  for (size_t i = 0; i < 4; ++i) {
    block[106 + i] = static_cast<uint8_t>(fit.level[2 * i] | fit.level[2 * i + 1] << 4);
  }
}

}  // namespace bp::quantize

// Four bits on a non-linear scale: iq4_nl, iq4_xs.

#include "backplane/reference/codebooks.hpp"
#include "core/quantize/block.hpp"
#include "core/quantize/encoders.hpp"
#include "core/quantize/grouped_scales.hpp"

namespace bp::quantize {

namespace {

const TableLevels& iq4_levels() {
  static const TableLevels table(reference::kIq4Values);
  return table;
}

void store_levels(const float* in, float scale, uint8_t* bytes) {
  uint8_t quants[32];
  for (int j = 0; j < 32; ++j) quants[j] = iq4_levels().index(in[j] * inverse(scale));
  store_nibbles(quants, 32, bytes);
}

}  // namespace

void encode_block_iq4_nl(const float* in, const float* weights, uint8_t* block) {
  const float d = round_to_f16(fit_scale(iq4_levels(), in, weights, 32).scale);
  store_f16(block, d);
  store_levels(in, d, block + 2);
}

void encode_block_iq4_xs(const float* in, const float* weights, uint8_t* block) {
  const auto scales = fit_grouped_scales<8, -32, 31>(iq4_levels(), in, weights);
  std::memset(block, 0, 8);
  store_f16(block, scales.d);
  uint32_t high = 0;
  for (int g = 0; g < 8; ++g) {
    const auto bits = static_cast<uint32_t>(scales.multiple[static_cast<size_t>(g)] + 32);
    high |= (bits >> 4) << (2 * g);
    block[4 + g / 2] = static_cast<uint8_t>(block[4 + g / 2] | (bits & 0xf) << (g % 2 * 4));
    store_levels(in + 32 * g, scales.scale(g), block + 8 + 16 * g);
  }
  store(block + 2, static_cast<uint16_t>(high));
}

}  // namespace bp::quantize

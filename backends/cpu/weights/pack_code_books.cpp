// Packers of the block types whose values lie in code books: their entries become codes, of which
// strip_layout.hpp says what they stand for. A few bits of an entry's byte tell its code.

#include "backends/cpu/weights/pack_words.hpp"
#include "backplane/half.hpp"
#include "backplane/reference/codebooks.hpp"

namespace bp::cpu {

namespace {

using reference::even_signs;

template <bp_dtype dtype, StripLayout layout>
struct Source {
  static constexpr bp_dtype kDtype = dtype;
  static constexpr StripLayout kLayout = layout;
  using Out = RowWriter<layout>;
};

float f16_at(const uint8_t* p) {
  return f16_to_f32(load_as<uint16_t>(p));
}

// Two bits of each of 16 columns from two entries of 8 bytes.
uint32_t pairs_of(uint64_t first, uint64_t second) {
  const uint64_t both = first | second << 4;  // words 0 and 2, 1 and 3
  return static_cast<uint32_t>(both) | static_cast<uint32_t>(both >> 32) << 2;
}

// 8, 25 and 43 are told by bits 4 and 5.
uint64_t iq2_codes(uint64_t entry) {
  return entry >> 4 & 0x0303030303030303ull;
}

struct Iq2Xxs : Source<BP_DTYPE_IQ2_XXS, StripLayout::kIq2Xxs> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block) * 0.125f);
    for (uint32_t b = 0; b < 8; ++b) {
      const uint8_t* index = block + 2 + 8 * b;
      const uint32_t word = word_at(index, 1);
      out.scale(b, static_cast<int>(1 + 2 * (word >> 28)));
      uint32_t signs = 0;
      for (uint32_t l = 0; l < 4; ++l) {
        signs |= static_cast<uint32_t>(even_signs(word >> (7 * l) & 127)) << (8 * l);
      }
      out.bits(b, signs);
      for (uint32_t h = 0; h < 2; ++h) {
        out.pairs(b, h,
                  pairs_of(iq2_codes(reference::kIq2XxsGrid[index[2 * h]]),
                           iq2_codes(reference::kIq2XxsGrid[index[2 * h + 1]])));
      }
    }
  }
};

template <class Out>
void set_nibble_scales(const uint8_t* scales, const Out& out) {
  for (uint32_t i = 0; i < 16; ++i) {
    out.scale(i, 1 + 2 * (scales[i / 2] >> (i % 2 * 4) & 15));
  }
}

struct Iq2Xs : Source<BP_DTYPE_IQ2_XS, StripLayout::kIq2S> {
  static uint64_t codes(uint32_t q) { return iq2_codes(reference::kIq2XsGrid[q & 511]); }
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block) * 0.125f);
    set_nibble_scales(block + 66, out);
    for (uint32_t b = 0; b < 8; ++b) {
      uint32_t q[4];
      uint32_t signs = 0;
      for (uint32_t l = 0; l < 4; ++l) {
        q[l] = load_as<uint16_t>(block + 2 + 8 * b + 2 * l);
        signs |= static_cast<uint32_t>(even_signs(q[l] >> 9)) << (8 * l);
      }
      out.bits(b, signs);
      for (uint32_t h = 0; h < 2; ++h) {
        out.pairs(b, h, pairs_of(codes(q[2 * h]), codes(q[2 * h + 1])));
      }
    }
  }
};

struct Iq2S : Source<BP_DTYPE_IQ2_S, StripLayout::kIq2S> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block) * 0.125f);
    set_nibble_scales(block + 74, out);
    for (uint32_t b = 0; b < 8; ++b) {
      out.bits(b, word_at(block + 34, b));
      const uint8_t* low = block + 2 + 4 * b;
      const uint32_t high = block[66 + b];
      const auto codes = [&](uint32_t l) {
        return iq2_codes(reference::kIq2SGrid[low[l] | (high >> (2 * l) & 3) << 8]);
      };
      for (uint32_t h = 0; h < 2; ++h) out.pairs(b, h, pairs_of(codes(2 * h), codes(2 * h + 1)));
    }
  }
};

// -1, 0 and 1 are told by bits 0 and 1.
uint64_t iq1_codes(uint32_t index) {
  return reference::kIq1Grid[index] & 0x0303030303030303ull;
}

struct Iq1S : Source<BP_DTYPE_IQ1_S, StripLayout::kIq1S> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block) * 0.125f);
    for (uint32_t b = 0; b < 8; ++b) {
      const uint8_t* low = block + 2 + 4 * b;
      const uint32_t qh = load_as<uint16_t>(block + 34 + 2 * b);
      out.scale(b, static_cast<int>(1 + 2 * (qh >> 12 & 7)));
      out.bits(b, (qh & 0x8000) != 0 ? ~0u : 0u);
      const auto codes = [&](uint32_t l) { return iq1_codes(low[l] | (qh >> (3 * l) & 7) << 8); };
      for (uint32_t h = 0; h < 2; ++h) out.pairs(b, h, pairs_of(codes(2 * h), codes(2 * h + 1)));
    }
  }
};

struct Iq1M : Source<BP_DTYPE_IQ1_M, StripLayout::kIq1M> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    const uint64_t scales = load_as<uint64_t>(block + 48);
    uint32_t d = 0;  // a nibble above the three scales of each 16 bits
    for (uint32_t k = 0; k < 4; ++k) {
      d |= static_cast<uint32_t>(scales >> (16 * k + 12) & 15) << (4 * k);
    }
    out.scale_unit(f16_to_f32(static_cast<uint16_t>(d)) * 0.125f);
    for (uint32_t i = 0; i < 16; ++i) {
      out.scale(i, 1 + 2 * static_cast<int>(scales >> (i / 4 * 16 + i % 4 * 3) & 7));
    }
    for (uint32_t b = 0; b < 8; ++b) {
      const uint8_t* low = block + 4 * b;
      const uint32_t nibbles = load_as<uint16_t>(block + 32 + 2 * b);
      const auto codes = [&](uint32_t l) {
        return iq1_codes(low[l] | (nibbles >> (4 * l) & 7) << 8);
      };
      uint32_t down = 0;
      for (uint32_t l = 0; l < 4; ++l) down |= (nibbles >> (4 * l + 3) & 1) * 0xffu << (8 * l);
      out.bits(b, down);
      for (uint32_t h = 0; h < 2; ++h) out.pairs(b, h, pairs_of(codes(2 * h), codes(2 * h + 1)));
    }
  }
};

// 8 in byte i where bit i of four is set.
uint32_t spread_signs(uint32_t signs) {
  return (signs & 15) * 0x00204081u << 3 & 0x08080808u;
}

// Nibbles of block b from a word of codes with signs for each four columns.
template <class Out>
void set_nibbles(const uint32_t words[8], uint32_t b, const Out& out) {
  for (uint32_t j = 0; j < 4; ++j) out.nibbles(b, j, words[j] | words[j + 4] << 4);
}

// 4, 12, 20 to 52 and 62 are told by bits 3 to 5.
struct Iq3Xxs : Source<BP_DTYPE_IQ3_XXS, StripLayout::kIq3Xxs> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block) * 0.25f);
    for (uint32_t b = 0; b < 8; ++b) {
      const uint8_t* index = block + 2 + 8 * b;
      const uint32_t word = word_at(block + 66, b);
      out.scale(b, static_cast<int>(1 + 2 * (word >> 28)));
      uint32_t words[8];
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t signs = even_signs(word >> (7 * (i / 2)) & 127) >> (i % 2 * 4);
        words[i] = (reference::kIq3XxsGrid[index[i]] >> 3 & 0x07070707u) | spread_signs(signs);
      }
      set_nibbles(words, b, out);
    }
  }
};

// 1, 3, 5 to 15 are told by bits 1 to 3.
struct Iq3S : Source<BP_DTYPE_IQ3_S, StripLayout::kIq3S> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block));
    for (uint32_t b = 0; b < 8; ++b) {
      out.scale(b, 1 + 2 * (block[106 + b / 2] >> (b % 2 * 4) & 15));
      const uint8_t* low = block + 2 + 8 * b;
      const uint32_t high = block[66 + b];
      const uint32_t signs = word_at(block + 74, b);
      uint32_t words[8];
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t entry = reference::kIq3SGrid[low[i] | (high >> i & 1) << 8];
        words[i] = (entry >> 1 & 0x07070707u) | spread_signs(signs >> (4 * i));
      }
      set_nibbles(words, b, out);
    }
  }
};

constexpr PackSource kSources[] = {
    kPackSource<Iq2Xxs>, kPackSource<Iq2Xs>,  kPackSource<Iq2S>, kPackSource<Iq1S>,
    kPackSource<Iq1M>,   kPackSource<Iq3Xxs>, kPackSource<Iq3S>,
};

}  // namespace

std::span<const PackSource> code_book_pack_sources() {
  return kSources;
}

}  // namespace bp::cpu

// Packers of the block types of 256 columns with scales in bytes or less.

#include "backends/cpu/weights/pack_words.hpp"
#include "backplane/half.hpp"

namespace bp::cpu {

namespace {

template <bp_dtype dtype, StripLayout layout>
struct Source {
  static constexpr bp_dtype kDtype = dtype;
  static constexpr StripLayout kLayout = layout;
  using Out = RowWriter<layout>;
};

float f16_at(const uint8_t* p) {
  return f16_to_f32(load_as<uint16_t>(p));
}

// d, and dmin with its sign turned.
template <class Out>
void set_scale_and_minimum(const uint8_t* both, const Out& out) {
  out.header(0, 0, load_as<uint16_t>(both));
  out.header(32, 0, static_cast<uint16_t>(load_as<uint16_t>(both + 2) ^ 0x8000u));
}

// The scales and minimums of 8 blocks, 6 bits each in 12 bytes, as 8 bytes each.
struct SixBits {
  uint32_t scales[2];
  uint32_t minimums[2];
};
SixBits six_bits(const uint8_t* packed) {
  constexpr uint32_t six = 0x3f3f3f3fu;
  constexpr uint32_t above = 0x30303030u;
  const uint32_t a = word_at(packed, 0);
  const uint32_t b = word_at(packed, 1);
  const uint32_t c = word_at(packed, 2);
  return {{a & six, (c & kWordNibbles) | (a >> 2 & above)},
          {b & six, (c >> 4 & kWordNibbles) | (b >> 2 & above)}};
}

template <class Out>
void set_six_bit_header(const uint8_t* block, const Out& out) {
  set_scale_and_minimum(block, out);
  const SixBits bits = six_bits(block + 4);
  for (uint32_t b = 0; b < 8; ++b) {
    out.header(64, b, static_cast<uint8_t>(bits.scales[b / 4] >> (8 * (b % 4))));
    out.header(192, b, static_cast<uint8_t>(bits.minimums[b / 4] >> (8 * (b % 4))));
  }
}

// Of 64 columns the first 32 lie below in 32 bytes, the others above.
template <class Out>
void split_nibbles(const uint8_t* qs, uint32_t b, const Out& out) {
  for (uint32_t j = 0; j < 4; ++j) {
    const uint32_t first = word_at(qs, j);
    const uint32_t second = word_at(qs, j + 4);
    out.nibbles(b, j, (first & kWordNibbles) | (second & kWordNibbles) << 4);
    out.nibbles(b + 1, j, (first >> 4 & kWordNibbles) | (second & ~kWordNibbles));
  }
}

// Of 32 bytes, bit b of byte i is that of column i of block b.
template <class Out>
void split_bits(const uint8_t* bytes, const Out& out) {
  uint64_t bits[4];  // byte b of bits[i]: columns 8i to 8i+7 of block b
  for (uint32_t i = 0; i < 4; ++i) bits[i] = transpose_bits(load_as<uint64_t>(bytes + 8 * i));
  for (uint32_t b = 0; b < 8; ++b) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      word |= static_cast<uint32_t>(bits[i] >> (8 * b) & 0xff) << (8 * i);
    }
    out.bits(b, word);
  }
}

// Words of pairs of the four blocks of 128 columns: f(block, h, word). Byte i of 32 has two bits of
// column i of each, lowest first.
template <class F>
void split_pairs(const uint8_t* bytes, F&& f) {
  for (uint32_t h = 0; h < 2; ++h) {
    uint32_t words[4];
    std::memcpy(words, bytes + 16 * h, sizeof words);
    transpose_pairs(words);
    for (uint32_t c = 0; c < 4; ++c) f(c, h, words[c]);
  }
}

struct Q2_K : Source<BP_DTYPE_Q2_K, StripLayout::kQ2_K> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    set_scale_and_minimum(block + 80, out);
    for (uint32_t i = 0; i < 16; ++i) out.header(64, i, block[i]);
    for (uint32_t half = 0; half < 2; ++half) {
      split_pairs(block + 16 + 32 * half,
                  [&](uint32_t c, uint32_t h, uint32_t word) { out.pairs(4 * half + c, h, word); });
    }
  }
};

struct Q3_K : Source<BP_DTYPE_Q3_K, StripLayout::kQ3_K> {
  // 16 scales of 6 bits, 32 above their values, from 12 bytes. With turned signs, here and of d,
  // scales times quants (-4 to 3) are bytes: -32 * -4 would be none.
  static void set_scales(const uint8_t* packed, const Out& out) {
    const uint32_t high = word_at(packed, 2);
    for (uint32_t w = 0; w < 4; ++w) {
      const uint32_t low = word_at(packed, w % 2) >> (w / 2 * 4) & kWordNibbles;
      const uint32_t both = low | (high >> (2 * w) & kWordPairs) << 4;
      for (uint32_t i = 0; i < 4; ++i) {
        out.scale(4 * w + i, 32 - static_cast<int>(both >> (8 * i) & 63));
      }
    }
  }
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(-f16_at(block + 108));
    set_scales(block + 96, out);
    split_bits(block, out);
    for (uint32_t half = 0; half < 2; ++half) {
      split_pairs(block + 32 + 32 * half,
                  [&](uint32_t c, uint32_t h, uint32_t word) { out.pairs(4 * half + c, h, word); });
    }
  }
};

struct Q4_K : Source<BP_DTYPE_Q4_K, StripLayout::kQ4_K> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    set_six_bit_header(block, out);
    for (uint32_t b = 0; b < 8; b += 2) split_nibbles(block + 16 + 16 * b, b, out);
  }
};

struct Q5_K : Source<BP_DTYPE_Q5_K, StripLayout::kQ5_K> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    set_six_bit_header(block, out);
    split_bits(block + 16, out);
    for (uint32_t b = 0; b < 8; b += 2) split_nibbles(block + 48 + 16 * b, b, out);
  }
};

struct Q6_K : Source<BP_DTYPE_Q6_K, StripLayout::kQ6_K> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block + 208));
    for (uint32_t i = 0; i < 16; ++i) out.header(64, i, block[192 + i]);
    // Of 128 columns' low bits, 64 bytes have the first 64 columns below and the others above.
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint32_t c = 0; c < 2; ++c) {
        const uint8_t* low = block + 64 * half + 32 * c;
        for (uint32_t j = 0; j < 4; ++j) {
          const uint32_t first = word_at(low, j);
          const uint32_t second = word_at(low, j + 4);
          out.nibbles(4 * half + c, j, (first & kWordNibbles) | (second & kWordNibbles) << 4);
          out.nibbles(4 * half + c + 2, j, (first >> 4 & kWordNibbles) | (second & ~kWordNibbles));
        }
      }
      split_pairs(block + 128 + 32 * half, [&](uint32_t c, uint32_t h, uint32_t word) {
        out.pairs_above_nibbles(4 * half + c, h, word);
      });
    }
  }
};

struct Q8_K : Source<BP_DTYPE_Q8_K, StripLayout::kQ8_K> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(load_as<float>(block));
    for (uint32_t i = 0; i < 64; ++i) out.bytes(i / 8, i % 8, word_at(block + 4, i));
  }
};

// 8 scales of 6 bits, 32 above their values: two bits each in a number, four in nibbles.
struct Iq4Xs : Source<BP_DTYPE_IQ4_XS, StripLayout::kIq4Xs> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    out.scale_unit(f16_at(block));
    const uint32_t high = load_as<uint16_t>(block + 2);
    const uint32_t low = word_at(block, 1);
    for (uint32_t b = 0; b < 8; ++b) {
      out.scale(b, static_cast<int>((low >> (4 * b) & 15) | (high >> (2 * b) & 3) << 4) - 32);
      for (uint32_t j = 0; j < 4; ++j) out.nibbles(b, j, word_at(block + 8 + 16 * b, j));
    }
  }
};

constexpr PackSource kSources[] = {
    kPackSource<Q2_K>, kPackSource<Q3_K>, kPackSource<Q4_K>,  kPackSource<Q5_K>,
    kPackSource<Q6_K>, kPackSource<Q8_K>, kPackSource<Iq4Xs>,
};

}  // namespace

std::span<const PackSource> super_block_pack_sources() {
  return kSources;
}

}  // namespace bp::cpu

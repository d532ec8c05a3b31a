// Packers of block types with one scale, or one of 16 columns, in each block.

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

// 16 bytes with columns 0 to 15 below and 16 to 31 above, as strips have them too.
template <class Out>
void copy_nibbles(const uint8_t* qs, uint32_t b, const Out& out) {
  for (uint32_t j = 0; j < 4; ++j) out.nibbles(b, j, word_at(qs, j));
}

template <class Out>
void copy_bytes(const uint8_t* qs, uint32_t b, const Out& out) {
  for (uint32_t k = 0; k < 8; ++k) out.bytes(b, k, word_at(qs, k));
}

struct Q4_0 : Source<BP_DTYPE_Q4_0, StripLayout::kQ4_0> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, b, load_as<uint16_t>(block));
    copy_nibbles(block + 2, b, out);
  }
};

struct Q4_1 : Source<BP_DTYPE_Q4_1, StripLayout::kQ4_1> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, 0, load_as<uint16_t>(block));
    out.header(32, 0, load_as<uint16_t>(block + 2));
    copy_nibbles(block + 4, b, out);
  }
};

struct Q5_0 : Source<BP_DTYPE_Q5_0, StripLayout::kQ5_0> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, b, load_as<uint16_t>(block));
    out.bits(b, load_as<uint32_t>(block + 2));
    copy_nibbles(block + 6, b, out);
  }
};

struct Q5_1 : Source<BP_DTYPE_Q5_1, StripLayout::kQ5_1> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, 0, load_as<uint16_t>(block));
    out.header(32, 0, load_as<uint16_t>(block + 2));
    out.bits(b, load_as<uint32_t>(block + 4));
    copy_nibbles(block + 8, b, out);
  }
};

struct Q8_0 : Source<BP_DTYPE_Q8_0, StripLayout::kQ8_0> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, b, load_as<uint16_t>(block));
    copy_bytes(block + 2, b, out);
  }
};

struct Q8_1 : Source<BP_DTYPE_Q8_1, StripLayout::kQ8_0> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, b, load_as<uint16_t>(block));
    copy_bytes(block + 4, b, out);
  }
};

struct Iq4Nl : Source<BP_DTYPE_IQ4_NL, StripLayout::kIq4Nl> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, b, load_as<uint16_t>(block));
    copy_nibbles(block + 2, b, out);
  }
};

// A power of two, halved, since the table of values holds their doubles, is exact in bf16.
struct Mxfp4 : Source<BP_DTYPE_MXFP4, StripLayout::kMxfp4> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    out.header(0, b, f32_to_bf16(e8m0_to_f32(block[0]) * 0.5f));
    copy_nibbles(block + 1, b, out);
  }
};

// 16 columns lie in 8 bytes, the first 8 below. Halves of e4m3 are exact in f16.
struct Nvfp4 : Source<BP_DTYPE_NVFP4, StripLayout::kNvfp4> {
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    for (uint32_t g = 0; g < 4; ++g) {
      out.header(0, 2 * b + g, f32_to_f16(f8_e4m3_to_f32(block[g] & 0x7f) * 0.5f));
    }
    for (uint32_t own = 0; own < 2; ++own) {
      const uint8_t* low = block + 4 + 16 * own;
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t first = word_at(low, j);
        const uint32_t second = word_at(low + 8, j);
        out.nibbles(b + own, j, (first & kWordNibbles) | (second & kWordNibbles) << 4);
        out.nibbles(b + own, j + 2, (first >> 4 & kWordNibbles) | (second & ~kWordNibbles));
      }
    }
  }
};

// d of blocks b and b + 1.
template <class Out>
void wide_scale(uint32_t b, const uint8_t* d, const Out& out) {
  out.header(0, b / 2, load_as<uint16_t>(d));
}

// 16 columns lie in 4 bytes, lowest bits first.
struct Q2_0 : Source<BP_DTYPE_Q2_0, StripLayout::kQ2_0> {
  static uint32_t transpose(uint32_t word) {
    uint32_t t = (word ^ (word >> 12)) & 0x0000f0f0u;
    word ^= t ^ (t << 12);
    t = (word ^ (word >> 6)) & 0x00cc00ccu;
    return word ^ t ^ (t << 6);
  }
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    wide_scale(b, block, out);
    for (uint32_t i = 0; i < 4; ++i) {
      out.pairs(b + i / 2, i % 2, transpose(word_at(block + 2, i)));
    }
  }
};

// A bit stands for -1 or 1, that is 0 or 2 in two bits.
struct Q1_0 : Source<BP_DTYPE_Q1_0, StripLayout::kQ2_0> {
  static uint32_t widen(uint32_t sixteen_bits) {
    uint32_t word = 0;
    for (uint32_t c = 0; c < 16; ++c) {
      word |= (sixteen_bits >> c & 1) << (c % 4 * 8 + c / 4 * 2 + 1);
    }
    return word;
  }
  static void pack(const uint8_t* block, uint32_t b, const Out& out) {
    wide_scale(b, block, out);
    wide_scale(b + 2, block, out);
    for (uint32_t i = 0; i < 8; ++i) {
      out.pairs(b + i / 2, i % 2, widen(load_as<uint16_t>(block + 2 + 2 * i)));
    }
  }
};

struct Tq2_0 : Source<BP_DTYPE_TQ2_0, StripLayout::kQ2_0> {
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    for (uint32_t b = 0; b < 8; b += 2) wide_scale(b, block + 64, out);
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t words[4];
      std::memcpy(words, block + 32 * (i / 2) + 16 * (i % 2), sizeof words);
      transpose_pairs(words);
      for (uint32_t c = 0; c < 4; ++c) out.pairs(4 * (i / 2) + c, i % 2, words[c]);
    }
  }
};

// A byte is a fraction whose digits to base 3 are columns: five of 32 bytes, five of 16 bytes, four
// of 4 bytes.
struct Tq1_0 : Source<BP_DTYPE_TQ1_0, StripLayout::kQ2_0> {
  static uint8_t* write_digits(const uint8_t* bytes, uint32_t n_bytes, uint32_t n_digits,
                               uint8_t* out) {
    uint8_t power = 1;
    for (uint32_t d = 0; d < n_digits; ++d, power = static_cast<uint8_t>(3 * power)) {
      for (uint32_t i = 0; i < n_bytes; ++i) {
        const auto fraction = static_cast<uint8_t>(bytes[i] * power);
        out[i] = static_cast<uint8_t>(fraction * 3 >> 8);
      }
      out += n_bytes;
    }
    return out;
  }
  static void pack(const uint8_t* block, uint32_t, const Out& out) {
    for (uint32_t b = 0; b < 8; b += 2) wide_scale(b, block + 52, out);
    uint8_t q[256];
    uint8_t* next = write_digits(block, 32, 5, q);
    next = write_digits(block + 32, 16, 5, next);
    write_digits(block + 48, 4, 4, next);
    for (uint32_t i = 0; i < 16; ++i) {
      const uint8_t* own = q + 16 * i;
      out.pairs(
          i / 2, i % 2,
          word_at(own, 0) | word_at(own, 1) << 2 | word_at(own, 2) << 4 | word_at(own, 3) << 6);
    }
  }
};

constexpr PackSource kSources[] = {
    kPackSource<Q4_0>,  kPackSource<Q4_1>, kPackSource<Q5_0>,  kPackSource<Q5_1>,
    kPackSource<Q8_0>,  kPackSource<Q8_1>, kPackSource<Iq4Nl>, kPackSource<Mxfp4>,
    kPackSource<Nvfp4>, kPackSource<Q2_0>, kPackSource<Q1_0>,  kPackSource<Tq2_0>,
    kPackSource<Tq1_0>,
};

}  // namespace

std::span<const PackSource> simple_pack_sources() {
  return kSources;
}

}  // namespace bp::cpu

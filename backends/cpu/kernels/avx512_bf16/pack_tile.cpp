// Packs tiles of keys and values of bf16 into 12 bits a number, and unpacks them.

#include "backends/cpu/kernels/avx512_bf16/packed_tile.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"

namespace bp::cpu::avx512_bf16 {
namespace {

constexpr int kExponentBits = 0x7f80;

inline __m512i exponents(__m512i numbers) {
  return _mm512_and_si512(numbers, _mm512_set1_epi16(kExponentBits));
}

// The greatest in each half of words, in all of them.
inline uint32_t greatest_pair(__m512i pairs) {
  const __m256i a =
      _mm256_max_epu16(_mm512_castsi512_si256(pairs), _mm512_extracti64x4_epi64(pairs, 1));
  __m128i b = _mm_max_epu16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  b = _mm_max_epu16(b, _mm_shuffle_epi32(b, 0x4e));
  b = _mm_max_epu16(b, _mm_shuffle_epi32(b, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(b));
}

// Of a greatest exponent.
inline uint8_t base_of(uint32_t exponent) {
  return static_cast<uint8_t>(
      exponent < PackedTile::kExponents ? 0 : exponent - PackedTile::kExponents + 1);
}

class TilePacker {
 public:
  TilePacker(const KvTile& tile, uint32_t n_dims, uint8_t* packed)
      : tile_(tile),
        n_dims_(n_dims),
        packed_{packed, n_dims},
        bases_(packed),
        ends_(reinterpret_cast<uint16_t*>(packed + PackedTile::ends_at(n_dims))),
        apart_(reinterpret_cast<PackedTile::Apart*>(packed + PackedTile::apart_at(n_dims))),
        out_(packed + PackedTile::numbers_at(n_dims)) {}

  bool run() {
    find_key_bases();
    find_value_bases();
    if (!is_finite_) return false;
    const KeyBases bases(packed_);
    for (uint32_t g = 0; g < kTileGroups; g += PackedTile::kSides) {
      if (!pack_piece({keys(g, 0), keys(g + 1, 0)}, BasesOfKeys{bases.of}, n_dims_ / 2)) {
        return false;
      }
    }
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint32_t c = 0; c < n_dims_; c += PackedTile::kPieceColumns) {
        if (!pack_piece({values(half, c), values(half, c + 16)}, BasesOfValues(packed_, c),
                        PackedTile::kValuePairs)) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  [[nodiscard]] const uint16_t* keys(uint32_t group, uint32_t pair) const {
    return static_cast<const uint16_t*>(tile_.keys[group]) + size_t{pair} * kVectorNumbers;
  }
  [[nodiscard]] const uint16_t* values(uint32_t half, uint32_t column) const {
    return static_cast<const uint16_t*>(tile_.values[2 * half]) +
           size_t{column} / 16 * PackedTile::kValuePairs * kVectorNumbers;
  }
  void note(uint32_t exponent) { is_finite_ = is_finite_ && exponent < 255; }

  void find_key_bases() {
    for (uint32_t pair = 0; pair < n_dims_ / 2; ++pair) {
      __m512i most = _mm512_setzero_si512();
      for (uint32_t g = 0; g < kTileGroups; ++g) {
        most = _mm512_max_epu16(most, exponents(_mm512_loadu_si512(keys(g, pair))));
      }
      const uint32_t both = greatest_pair(most);
      note(both >> 7 & 0xff);
      note(both >> 23);
      bases_[2 * pair] = base_of(both >> 7 & 0xff);
      bases_[2 * pair + 1] = base_of(both >> 23);
    }
  }
  void find_value_bases() {
    for (uint32_t c = 0; c < n_dims_; c += 16) {
      __m512i most = _mm512_setzero_si512();
      for (uint32_t half = 0; half < 2; ++half) {
        for (uint32_t v = 0; v < PackedTile::kValuePairs; ++v) {
          most = _mm512_max_epu16(
              most, exponents(_mm512_loadu_si512(values(half, c) + size_t{v} * kVectorNumbers)));
        }
      }
      alignas(64) uint16_t of[kVectorNumbers];
      _mm512_store_si512(of, most);
      for (uint32_t i = 0; i < 16; ++i) {
        const uint32_t exponent = (of[2 * i] > of[2 * i + 1] ? of[2 * i] : of[2 * i + 1]) >> 7;
        note(exponent);
        bases_[n_dims_ + c + i] = base_of(exponent);
      }
    }
  }

  // Where each side's vectors begin.
  using Sides = const uint16_t* const (&)[PackedTile::kSides];

  template <class Bases>
  bool pack_piece(Sides from, const Bases& bases, uint32_t n_pairs) {
    for (uint32_t p = 0; p < n_pairs; p += 2, out_ += PackedTile::kFourBytes) {
      __m512i less[4];
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t pair = p + i / 2, side = i % 2;
        const __m512i number = _mm512_loadu_si512(from[side] + pair * kVectorNumbers);
        const __m512i base = bases.base(pair, side);
        const __mmask32 below = _mm512_cmplt_epu16_mask(exponents(number), base);
        if (__builtin_expect(below != 0, 0) && !set_apart(below, number, side * n_pairs + pair)) {
          return false;
        }
        less[i] = _mm512_maskz_sub_epi16(~below, number, base);
      }
      const __m512i nibbles =
          _mm512_or_si512(store_lower(less[0], less[1], out_),
                          _mm512_slli_epi16(store_lower(less[2], less[3], out_ + 64), 4));
      _mm512_storeu_si512(out_ + PackedTile::kNibblesAt, nibbles);
    }
    ends_[n_pieces_++] = static_cast<uint16_t>(n_apart_);
    return true;
  }
  // The lower bytes of two vectors; returns the nibbles of their upper ones.
  static __m512i store_lower(__m512i a, __m512i b, uint8_t* to) {
    const __m512i low = _mm512_set1_epi16(0xff);
    _mm512_storeu_si512(to,
                        _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low)));
    const __m512i upper =
        _mm512_packus_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8));  // s0000kkk
    return _mm512_and_si512(_mm512_or_si512(upper, _mm512_srli_epi16(upper, 4)),
                            _mm512_set1_epi8(15));
  }
  bool set_apart(__mmask32 below, __m512i vector, uint32_t nth) {
    alignas(64) uint16_t numbers[kVectorNumbers];
    _mm512_store_si512(numbers, vector);
    for (uint32_t left = below; left != 0; left &= left - 1) {
      if (n_apart_ == PackedTile::most_apart(n_dims_)) return false;
      const auto lane = static_cast<uint32_t>(__builtin_ctz(left));
      apart_[n_apart_++] = {static_cast<uint16_t>(nth * kVectorNumbers + lane), numbers[lane]};
    }
    return true;
  }

  const KvTile& tile_;
  const uint32_t n_dims_;
  const PackedTile packed_;
  uint8_t* const bases_;
  uint16_t* const ends_;
  PackedTile::Apart* const apart_;
  uint8_t* out_;  // the next four vectors
  bool is_finite_ = true;
  uint32_t n_pieces_ = 0, n_apart_ = 0;
};

bool pack_tile(const KvTile& tile, uint32_t n_dims, uint8_t* packed) {
  return TilePacker(tile, n_dims, packed).run();
}

void unpack_tile(const KvTile& tile, uint16_t* to) {
  const PackedTile& packed = tile.packed;
  const uint32_t key_pairs = packed.n_dims / 2;
  const KeyBases bases(packed);
  const AskedBefore ask;
  for (uint32_t g = 0; g < kTileGroups; g += PackedTile::kSides) {
    unpack_piece(packed_keys(packed, g), BasesOfKeys{bases.of}, key_pairs, ask, to);
    to += PackedTile::kSides * key_pairs * kVectorNumbers;
  }
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t c = 0; c < packed.n_dims; c += PackedTile::kPieceColumns) {
      unpack_piece(packed_values(packed, half, c), BasesOfValues(packed, c),
                   PackedTile::kValuePairs, ask, to);
      to += PackedTile::kSides * PackedTile::kValuePairs * kVectorNumbers;
    }
  }
}

}  // namespace

void set_tile_packing(Kernels& kernels) {
  kernels.pack_tile = pack_tile;
  kernels.unpack_tile = unpack_tile;
}

}  // namespace bp::cpu::avx512_bf16

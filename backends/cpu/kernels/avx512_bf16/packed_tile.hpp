#pragma once
// Reads tiles of keys and values in 12 bits (PackedTile).

#include <immintrin.h>

#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/prefetch.hpp"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::avx512_bf16 {

// pack_tile.cpp: to pack tiles and to unpack them.
void set_tile_packing(Kernels& kernels);

namespace {

constexpr uint32_t kVectorNumbers = 32;

struct FourVectors {
  __m512i of[4];
};

// Of a nibble skkk the upper byte; six bits choose one, of which the upper two are another's.
inline __m512i upper_bytes_of_nibbles() {
  alignas(16) static constexpr uint8_t kBytes[16] = {
      0, 1, 2, 3, 4, 5, 6, 7, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87};
  return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kBytes)));
}

// Four vectors, less their bases.
__attribute__((always_inline)) inline FourVectors four_vectors(const uint8_t* four,
                                                               __m512i upper_bytes) {
  const __m512i first = _mm512_loadu_si512(four), second = _mm512_loadu_si512(four + 64);
  const __m512i nibbles = _mm512_loadu_si512(four + PackedTile::kNibblesAt);
  const __m512i above = _mm512_srli_epi16(nibbles, 4);
  const __m512i first_upper = _mm512_permutexvar_epi8(nibbles, upper_bytes);
  const __m512i second_upper = _mm512_permutexvar_epi8(above, upper_bytes);
  return {{_mm512_unpacklo_epi8(first, first_upper), _mm512_unpackhi_epi8(first, first_upper),
           _mm512_unpacklo_epi8(second, second_upper), _mm512_unpackhi_epi8(second, second_upper)}};
}

// What is added to keys of a pair of dimensions, for all of them.
struct KeyBases {
  alignas(64) uint32_t of[PackedTile::kMostDims / 2];
  explicit KeyBases(const PackedTile& tile) {
    for (uint32_t d = 0; d < tile.n_dims; d += 32) {
      const auto* bases = reinterpret_cast<const __m256i*>(tile.first + d);
      _mm512_store_si512(of + d / 2,
                         _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256(bases)), 7));
    }
  }
};
// To pairs of values of 16 columns.
inline __m512i value_bases(const PackedTile& tile, uint32_t column) {
  const auto* bases = reinterpret_cast<const __m128i*>(tile.first + tile.n_dims + column);
  const __m512i low = _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_loadu_si128(bases)), 7);
  return _mm512_or_si512(low, _mm512_slli_epi32(low, 16));
}

// Part of a tile: its vectors by fours, and what stands apart in it.
struct PackedPiece {
  const uint8_t* fours;
  const PackedTile::Apart* apart;
  uint32_t n_apart;
};
// nth: of all pieces; first: the vector that it begins with.
inline PackedPiece packed_piece(const PackedTile& tile, uint32_t nth, uint32_t first) {
  const auto* ends =
      reinterpret_cast<const uint16_t*>(tile.first + PackedTile::ends_at(tile.n_dims));
  const auto* apart =
      reinterpret_cast<const PackedTile::Apart*>(tile.first + PackedTile::apart_at(tile.n_dims));
  const uint32_t begin = nth == 0 ? 0 : ends[nth - 1];
  return {
      tile.first + PackedTile::numbers_at(tile.n_dims) + size_t{first} / 4 * PackedTile::kFourBytes,
      apart + begin, ends[nth] - begin};
}
// group: the first of two.
inline PackedPiece packed_keys(const PackedTile& tile, uint32_t group) {
  return packed_piece(tile, group / PackedTile::kSides, group * tile.n_dims / 2);
}
// column: the first of kPieceColumns.
inline PackedPiece packed_values(const PackedTile& tile, uint32_t half, uint32_t column) {
  const uint32_t nth = (half * tile.n_dims + column) / PackedTile::kPieceColumns;
  return packed_piece(tile, kTileGroups / PackedTile::kSides + nth,
                      2 * tile.n_dims + nth * PackedTile::kSides * PackedTile::kValuePairs);
}

// What is added to pair i of a side.
struct BasesOfKeys {
  const uint32_t* of;
  [[nodiscard]] __m512i base(uint32_t i, uint32_t) const {
    return _mm512_set1_epi32(static_cast<int>(of[i]));
  }
};
struct BasesOfValues {
  __m512i of[PackedTile::kSides];
  BasesOfValues(const PackedTile& tile, uint32_t column)
      : of{value_bases(tile, column), value_bases(tile, column + 16)} {}
  [[nodiscard]] __m512i base(uint32_t, uint32_t side) const { return of[side]; }
};

// What is asked for while a tile is read: all that is read so far behind it, the rest of the tile,
// then the packed tile that follows, wherever it lies; of a whole tile that follows what is wanted,
// all along. (Distances and levels: measured.) Inlined by force: gcc drops a function that only
// asks.
template <Tuning T>
class AskPacked {
 public:
  explicit AskPacked(const KvTile& tile) {
    const PackedTile& own = tile.packed;
    const auto n_bytes = static_cast<ptrdiff_t>(PackedTile::packed_bytes(own.n_dims));
    far_ = n_bytes < kFarBytes ? n_bytes : kFarBytes;
    turn_ = own.first + n_bytes - far_;
    if (tile.packed_is_next) {
      next_ = tile.ahead - n_bytes + far_;
    } else if (tile.ahead != 0) {
      const auto group_bytes = ptrdiff_t{32} * own.n_dims;  // of keys, of half a group of values
      whole_ = tile.ahead;
      keys_end_ = own.first + tile.wanted_end * group_bytes;
      values_ = own.first + kTileGroups * group_bytes;
      values_end_ = values_ + 2 * group_bytes;
    }
  }
  __attribute__((always_inline)) void four(const uint8_t* from) const {
    lines<PackedTile::kFourBytes / 64>(from);
  }
  // What stands before a tile's vectors.
  __attribute__((always_inline)) void header(const PackedTile& tile) const {
    const uint8_t* const end = tile.first + PackedTile::numbers_at(tile.n_dims);
    for (const uint8_t* from = tile.first; from < end; from += 64) lines<1>(from);
  }

 private:
  template <uint32_t kLines>
  __attribute__((always_inline)) void lines(const uint8_t* from) const {
    const uint8_t* const far = from + (from < turn_ ? far_ : next_);
    BP_UNROLL for (uint32_t i = 0; i < kLines; ++i) {
      prefetch<kBothLevels ? 2 : 1>(far, 64 * i);
      if constexpr (kBothLevels) prefetch<1>(from, kNearBytes + 64 * i);
    }
    if (__builtin_expect(whole_ == 0, 1)) return;
    if (from >= keys_end_ && (from < values_ || from >= values_end_)) return;
    BP_UNROLL for (uint32_t i = 0; i < kLines; ++i) prefetch<2>(from + whole_, 64 * i);
  }

  static constexpr bool kBothLevels = T == Tuning::kZen4;
  static constexpr ptrdiff_t kFarBytes = 16384, kNearBytes = 3072;
  ptrdiff_t far_, next_ = 0;  // from there on; 0: what is read already
  const uint8_t* turn_;
  ptrdiff_t whole_ = 0;
  // Of a whole tile the first lines and the first half of its values are wanted.
  const uint8_t *keys_end_ = nullptr, *values_ = nullptr, *values_end_ = nullptr;
};

// Where all was asked for before.
struct AskedBefore {
  void four(const uint8_t*) const {}
};

// Calls f(i, vectors i of both sides) for a piece's vectors, n_pairs a side, but for what stands
// apart.
template <class Bases, class Ask, class F>
__attribute__((always_inline)) inline void for_pairs(const PackedPiece& piece, const Bases& bases,
                                                     uint32_t n_pairs, const Ask& ask, F&& f) {
  const __m512i upper_bytes = upper_bytes_of_nibbles();
  const uint8_t* from = piece.fours;
  for (uint32_t p = 0; p < n_pairs; p += 2, from += PackedTile::kFourBytes) {
    const FourVectors four = four_vectors(from, upper_bytes);
    ask.four(from);
    BP_UNROLL for (uint32_t i = 0; i < 2; ++i) {
      const __m512i sides[PackedTile::kSides] = {
          _mm512_add_epi32(four.of[2 * i], bases.base(p + i, 0)),
          _mm512_add_epi32(four.of[2 * i + 1], bases.base(p + i, 1))};
      f(p + i, sides);
    }
  }
}

// A piece's vectors as they were, [kSides][n_pairs].
template <class Bases, class Ask>
inline void unpack_piece(const PackedPiece& piece, const Bases& bases, uint32_t n_pairs,
                         const Ask& ask, uint16_t* to) {
  uint16_t* const second = to + n_pairs * kVectorNumbers;
  for_pairs(
      piece, bases, n_pairs, ask,
      [&](uint32_t i, const __m512i(&sides)[PackedTile::kSides]) __attribute__((always_inline)) {
        _mm512_store_si512(to + i * kVectorNumbers, sides[0]);
        _mm512_store_si512(second + i * kVectorNumbers, sides[1]);
      });
  for (uint32_t i = 0; i < piece.n_apart; ++i) {
    to[piece.apart[i].element] = piece.apart[i].number;
  }
}

}  // namespace
}  // namespace bp::cpu::avx512_bf16

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
inline PackedPiece packed_keys(const PackedTile& tile, uint32_t group) {
  return packed_piece(tile, group, group * tile.n_dims / 2);
}
inline PackedPiece packed_values(const PackedTile& tile, uint32_t half, uint32_t column) {
  const uint32_t nth = half * tile.n_dims / 16 + column / 16;
  return packed_piece(tile, kTileGroups + nth, 2 * tile.n_dims + nth * PackedTile::kValueVectors);
}

// What is added to vector i of a piece.
struct BasesOfKeys {
  const uint32_t* of;
  [[nodiscard]] __m512i base(uint32_t i) const {
    return _mm512_set1_epi32(static_cast<int>(of[i]));
  }
};
struct BasesOfValues {
  __m512i of;
  [[nodiscard]] __m512i base(uint32_t) const { return of; }
};

// What is asked for while four vectors of a tile are read: for the second-level cache what is far
// ahead, as long as it is wanted, for the first one what is near. (Distances: measured.) Inlined by
// force: gcc drops a function that only asks.
class AskPacked {
 public:
  explicit AskPacked(const KvTile& tile) {
    const PackedTile& own = tile.packed;
    const auto n_bytes = static_cast<ptrdiff_t>(PackedTile::packed_bytes(own.n_dims));
    // What follows in memory is asked for from near enough.
    far_ = tile.ahead == n_bytes && n_bytes > kFarBytes ? kFarBytes : tile.ahead;
    const auto group_bytes = ptrdiff_t{32} * own.n_dims;  // of keys, of half a group of values
    const uint8_t* const next = own.first + tile.ahead - far_;
    if (tile.ahead == 0) {
      end_ = values_ = values_end_ = own.first;
    } else if (tile.packed_is_next) {
      end_ = next + n_bytes;
      values_ = values_end_ = end_;
    } else {
      end_ = next + tile.wanted_end * group_bytes;
      values_ = next + kTileGroups * group_bytes;
      values_end_ = values_ + 2 * group_bytes;
    }
  }
  __attribute__((always_inline)) void four(const uint8_t* from) const {
    const bool is_wanted = from < end_ || (from >= values_ && from < values_end_);
    BP_UNROLL for (uint32_t i = 0; i < PackedTile::kFourBytes; i += 64) {
      if (is_wanted) prefetch<2>(from + far_, i);
      prefetch<1>(from, kNearBytes + i);
    }
  }

 private:
  static constexpr ptrdiff_t kFarBytes = 16384, kNearBytes = 3072;
  ptrdiff_t far_;
  // What is wanted is as far from here: all before, and the first half of a whole tile's values.
  const uint8_t *end_, *values_, *values_end_;
};

// Calls f(i, vector i) for a piece's vectors, but for what stands apart.
template <class Bases, class F>
__attribute__((always_inline)) inline void for_vectors(const PackedPiece& piece, const Bases& bases,
                                                       uint32_t n_vectors, const AskPacked& ask,
                                                       F&& f) {
  const __m512i upper_bytes = upper_bytes_of_nibbles();
  const uint8_t* from = piece.fours;
  for (uint32_t v = 0; v < n_vectors; v += 4, from += PackedTile::kFourBytes) {
    const FourVectors four = four_vectors(from, upper_bytes);
    ask.four(from);
    BP_UNROLL for (uint32_t i = 0; i < 4; ++i) {
      f(v + i, _mm512_add_epi32(four.of[i], bases.base(v + i)));
    }
  }
}

// A piece's vectors as they were.
template <class Bases>
inline void unpack_piece(const PackedPiece& piece, const Bases& bases, uint32_t n_vectors,
                         const AskPacked& ask, uint16_t* to) {
  for_vectors(
      piece, bases, n_vectors, ask, [&](uint32_t i, __m512i vector) __attribute__((always_inline)) {
        _mm512_store_si512(to + i * kVectorNumbers, vector);
      });
  for (uint32_t i = 0; i < piece.n_apart; ++i) {
    to[piece.apart[i].element] = piece.apart[i].number;
  }
}

}  // namespace
}  // namespace bp::cpu::avx512_bf16

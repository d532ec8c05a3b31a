// Blocks as images have them (backplane/ext/kv_transfer.h): rows of a position and head in place of
// what kernels like.

#include <algorithm>
#include <cstring>

#include "backends/cpu/kv_cache.hpp"
#include "backends/cpu/kv_layout.hpp"

namespace bp::cpu {

namespace {

constexpr uint32_t kQ8Bytes = 34, kQ4Bytes = 18;  // of 32 elements, the scale first
constexpr uint32_t kNibbleBytes = kKvScaleDims / 2;

// Where a position of one head lies; strides in bytes.
struct Kept {
  uint8_t* numbers;
  uint8_t* scales;        // of the first 32 dimensions, quantised types only
  uint64_t scale_stride;  // to those of the next 32
};

template <bool kToImage>
void move(uint8_t* kept, uint8_t* image, size_t n_bytes) {
  kToImage ? std::memcpy(image, kept, n_bytes) : std::memcpy(kept, image, n_bytes);
}

// n runs of run_bytes, `stride` bytes apart in the cache, and of n_bytes in all.
template <bool kToImage>
void move_runs(uint8_t* kept, uint64_t stride, uint8_t* image, uint32_t run_bytes,
               uint64_t n_bytes) {
  for (uint64_t at = 0; at < n_bytes; at += run_bytes, kept += stride) {
    move<kToImage>(kept, image + at, std::min<uint64_t>(run_bytes, n_bytes - at));
  }
}

// Eight 4-bit keys are 4 bytes, dimensions 0 to 3 in the low halves; an image's blocks have 0 to 15
// in the low halves of 16 bytes.
uint8_t& nibble(uint8_t* bytes, uint32_t half, uint32_t d, uint32_t& shift) {
  shift = d % (2 * half) < half ? 0 : 4;
  return bytes[d / (2 * half) * half + d % half];
}

void repack_nibbles(const uint8_t* from, uint32_t from_half, uint8_t* to, uint32_t to_half) {
  std::fill_n(to, kNibbleBytes, uint8_t{0});
  for (uint32_t d = 0; d < kKvScaleDims; ++d) {
    uint32_t from_shift, to_shift;
    const uint8_t byte = nibble(const_cast<uint8_t*>(from), from_half, d, from_shift);
    uint8_t& out = nibble(to, to_half, d, to_shift);
    out = static_cast<uint8_t>(out | ((byte >> from_shift) & 15) << to_shift);
  }
}

// Words of 4 bytes, word_stride apart, of a head's 32 4-bit keys; dimensions past the last are
// zeros plus 8.
template <bool kToImage>
void move_key_nibbles(uint8_t* words, uint64_t word_stride, uint32_t n_words, uint8_t* image) {
  uint8_t bytes[kNibbleBytes];
  std::fill_n(bytes, kNibbleBytes, uint8_t{0x88});
  if constexpr (!kToImage) repack_nibbles(image, 16, bytes, 4);
  for (uint32_t w = 0; w < n_words; ++w) move<kToImage>(words + w * word_stride, bytes + 4 * w, 4);
  if constexpr (kToImage) repack_nibbles(bytes, 4, image, 16);
}

template <bool kToImage, class MoveNumbers>
void move_quantised(const Kept& kept, uint32_t n, uint32_t block_bytes, uint8_t* row,
                    MoveNumbers&& move_numbers) {
  for (uint32_t d = 0; d < n; d += kKvScaleDims, row += block_bytes) {
    move<kToImage>(kept.scales + d / kKvScaleDims * kept.scale_stride, row, sizeof(uint16_t));
    move_numbers(d, std::min(kKvScaleDims, n - d), row + sizeof(uint16_t));
  }
}

template <bool kToImage>
void move_key(KvType type, const Kept& kept, uint32_t n, uint32_t block_size, uint8_t* row) {
  const auto words_of = [&](uint32_t d) {
    return kept.numbers + d / kKvScaleDims * uint64_t{key_scale_step(type)};
  };
  switch (type) {
    case KvType::kF32:
      return move_runs<kToImage>(kept.numbers, uint64_t{block_size} * 4, row, 4, uint64_t{n} * 4);
    case KvType::kF16:
      return move_runs<kToImage>(kept.numbers, uint64_t{block_size} * 2, row, 2, uint64_t{n} * 2);
    case KvType::kBF16:
      return move_runs<kToImage>(kept.numbers, kKvLanes * sizeof(uint32_t), row, 4,
                                 uint64_t{n} * 2);
    case KvType::kQ8_0:
      return move_quantised<kToImage>(
          kept, n, kQ8Bytes, row, [&](uint32_t d, uint32_t part, uint8_t* to) {
            move_runs<kToImage>(words_of(d), kKeyWordBytes, to, 4, part);
          });
    case KvType::kQ4_0:
      return move_quantised<kToImage>(
          kept, n, kQ4Bytes, row, [&](uint32_t d, uint32_t part, uint8_t* to) {
            move_key_nibbles<kToImage>(words_of(d), kKeyWordBytes, (part + 7) / 8, to);
          });
  }
}

template <bool kToImage>
void move_value(KvType type, const Kept& kept, uint32_t n, uint32_t block_size, uint8_t* row) {
  const auto quads_of = [&](uint32_t d) {
    return kept.numbers + d / kKvScaleDims * value_scale_step(type, block_size);
  };
  constexpr uint64_t kColumnBlockBytes =
      uint64_t{kValuePairPositions} * kKvLanes * sizeof(uint16_t);
  switch (type) {
    case KvType::kF32:
      return move<kToImage>(kept.numbers, row, size_t{n} * 4);
    case KvType::kF16:
      return move<kToImage>(kept.numbers, row, size_t{n} * 2);
    case KvType::kBF16:
      for (uint32_t c = 0; c < n; c += kKvLanes) {
        move_runs<kToImage>(kept.numbers + c / kKvLanes * kColumnBlockBytes, 2 * sizeof(uint16_t),
                            row + size_t{c} * 2, 2, std::min(kKvLanes, n - c) * 2);
      }
      return;
    case KvType::kQ8_0:
      return move_quantised<kToImage>(
          kept, n, kQ8Bytes, row, [&](uint32_t d, uint32_t part, uint8_t* to) {
            for (uint32_t i = 0; i < part; i += kKvLanes) {
              move_runs<kToImage>(quads_of(d) + i / kKvLanes * kValueQuadBytes, kValueQuad, to + i,
                                  1, std::min(kKvLanes, part - i));
            }
          });
    case KvType::kQ4_0:
      return move_quantised<kToImage>(
          kept, n, kQ4Bytes, row, [&](uint32_t d, uint32_t, uint8_t* to) {
            move_runs<kToImage>(quads_of(d), kValueQuad, to, 1, kNibbleBytes);
          });
  }
}

}  // namespace

template <bool kToImage>
void KvCache::move_rows(uint32_t slot_index, bool is_value, int32_t block, uint8_t* rows,
                        uint64_t row_bytes) const {
  alignas(64) uint8_t whole[PackedTile::whole_bytes(PackedTile::kMostDims)];
  const Slot& slot = slots_[slot_index];
  const uint32_t n_heads = slot.shape.n_kv_heads;
  for (uint32_t h = 0; h < n_heads; ++h) {
    Head at = head(slot, block, h);
    if (is_packed(slot, block, h)) {
      unpack(slot, at, whole);
      at = {whole, whole + second_values(slot)};
    }
    for (uint32_t offset = 0; offset < block_size_; ++offset) {
      uint8_t* const row = rows + (size_t{offset} * n_heads + h) * row_bytes;
      Kept kept;
      if (is_value) {
        kept.scale_stride = block_size_ * sizeof(uint16_t);
        kept.scales = at.first + slot.value_scales + offset * sizeof(uint16_t);
        kept.numbers = value(slot, at, offset);
        move_value<kToImage>(v_type_, kept, slot.shape.v_head_dim, block_size_, row);
      } else {
        kept.scale_stride = key_scale_step(k_type_);
        kept.scales = at.first + key_scale_offset(k_type_, slot.shape.k_head_dim, offset);
        kept.numbers = at.first + key_offset(k_type_, slot.shape.k_head_dim, offset);
        move_key<kToImage>(k_type_, kept, slot.shape.k_head_dim, block_size_, row);
      }
    }
  }
}

void KvCache::export_block(const KvImages& images, uint32_t group, int32_t block,
                           uint8_t* image) const {
  std::fill_n(image, images.image_bytes(group), uint8_t{0});
  images.begin(group, image);
  for (const KvImages::Plane& plane : images.planes(group)) {
    move_rows<true>(plane.slot, plane.is_value, block, image + plane.offset, plane.row_bytes);
  }
}

void KvCache::import_block(const KvImages& images, uint32_t group, int32_t block,
                           const uint8_t* image) {
  // What kernels read past the last dimension is zeros.
  apply({BP_BLOCK_CLEAR, BP_BLOCK_OF_GROUP, group, 0, block});
  for (const KvImages::Plane& plane : images.planes(group)) {
    move_rows<false>(plane.slot, plane.is_value, block, const_cast<uint8_t*>(image) + plane.offset,
                     plane.row_bytes);
  }
}

}  // namespace bp::cpu

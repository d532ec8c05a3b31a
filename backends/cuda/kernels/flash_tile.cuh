#pragma once
// What a block of flash_attend works on: its query rows, and tiles of K and V in shared memory.

#include "backends/cuda/kernels/flash.hpp"
#include "backends/cuda/kernels/positions.cuh"

namespace bp::cuda {

inline constexpr float kLog2E = 1.44269504f;

// Columns of K and V in shared memory, multiples of 16, and from a row to the next: 16 bytes more,
// so that eight rows lie in different banks. In 16-bit values.
struct FlashShapes {
  uint32_t k_columns, k_stride, v_columns, v_stride;
};
__device__ __forceinline__ FlashShapes flash_shapes(uint32_t k_dim, uint32_t v_dim) {
  const uint32_t k = (k_dim + 15) / 16 * 16, v = (v_dim + 15) / 16 * 16;
  return {k, k + 8, v, v + 8};
}

template <bool kIsF16>
__device__ __forceinline__ uint32_t pack_halves(float low, float high) {
  return kIsF16 ? pack_f16(low, high) : pack_bf16(low, high);
}
template <bool kIsF16>
__device__ __forceinline__ float value_of_half(uint16_t bits) {
  return kIsF16 ? f16_value(bits) : bf16_value(bits);
}
// Whether one of two is infinite or NaN: 1 added to an exponent of ones reaches the sign.
template <bool kIsF16>
__device__ __forceinline__ bool any_not_finite(uint32_t halves) {
  constexpr uint32_t kExponents = kIsF16 ? 0x7c007c00u : 0x7f807f80u;
  constexpr uint32_t kOnes = kIsF16 ? 0x04000400u : 0x00800080u;
  return (((halves & kExponents) + kOnes) & 0x80008000u) != 0;
}

__device__ __forceinline__ void write_zeros(const AttendParams& p, const FlashItem& tile,
                                            uint32_t kv_head, uint32_t n_heads) {
  const uint32_t width = n_heads * p.v.head_dim;
  for (uint32_t i = threadIdx.x; i < tile.n_tokens * width; i += blockDim.x) {
    const uint64_t row = tile.first_token + i / width;
    p.o.data[row * p.o.stride + kv_head * width + i % width] = 0;
  }
}

// Rows of queries in 16 bits, times what makes scores of them: their products with keys are powers
// of 2, before a soft cap powers of e. Zeros for rows and columns that there are not.
template <bool kIsF16>
__device__ __forceinline__ void load_queries(const AttendParams& p, const FlashItem& tile,
                                             uint32_t kv_head, uint32_t n_heads,
                                             const FlashShapes& shapes, uint16_t* q) {
  const uint32_t n_rows = tile.n_tokens * n_heads, dim = p.k.head_dim;
  const uint32_t n_used = (n_rows + 15) / 16 * 16;
  const float scale = p.softcap != 0 ? p.scale : p.scale * kLog2E;
  for (uint32_t row = warp_index(); row < n_used; row += kFlashWarps) {
    const uint64_t token = tile.first_token + row / n_heads;
    const float* const from =
        p.q.data + token * p.q.stride + (kv_head * n_heads + row % n_heads) * dim;
    auto* const to = reinterpret_cast<uint32_t*>(q + row * shapes.k_stride);
    for (uint32_t d = 2 * lane_index(); d < shapes.k_columns; d += 2 * kWarp) {
      const float low = row < n_rows && d < dim ? from[d] * scale : 0;
      const float high = row < n_rows && d + 1 < dim ? from[d + 1] * scale : 0;
      to[d / 2] = pack_halves<kIsF16>(low, high);
    }
  }
}

// A token's part of its positions, by a head.
__device__ __forceinline__ float* split_of(const AttendParams& p, uint32_t slot, uint32_t head) {
  return p.partials +
         (static_cast<uint64_t>(slot) * p.n_heads + head) * floats_of_split(p.v.head_dim);
}

// Tiles of 64 positions on their way into shared memory, one after the other; positions outside of
// those that the block sees become zeros, since theirs may hold anything.
class FlashSource {
 public:
  __device__ FlashSource(const AttendParams& p, uint32_t sequence, uint32_t kv_head,
                         const Positions& seen, uint32_t first_tile)
      : p_(p),
        blocks_(p.step->tables[p.group].blocks + sequence * p.step->tables[p.group].stride),
        kv_head_(kv_head),
        seen_(seen),
        position_(first_tile * kFlashPositions + threadIdx.x / kThreadsOfRow) {
    locate();
  }
  __device__ const AttendParams& params() const { return p_; }

  // Rows of a plane in shared memory: n_pieces of 16 bytes of each, those behind its end zeros.
  struct Target {
    const KvPlane& plane;
    uint32_t n_pieces;
    uint8_t* to;
    uint32_t stride_bytes;
  };
  // Eight threads have a row. Where a thread's rows of the tile after this one lie is asked for
  // now: the table of blocks is far away.
  __device__ void copy_next(const Target& of_k, const Target& of_v) {
    BP_UNROLL
    for (uint32_t i = 0; i < kTurns; ++i) {
      for (const Target* target : {&of_k, &of_v}) {
        const uint8_t* const from = kv_row(target->plane, block_[i], kv_head_, slot_[i]);
        const uint32_t row = threadIdx.x / kThreadsOfRow + i * kRowsOfTurn;
        uint8_t* const to = target->to + row * target->stride_bytes;
        for (uint32_t piece = threadIdx.x % kThreadsOfRow; piece < target->n_pieces;
             piece += kThreadsOfRow) {
          const bool is_read = is_there_[i] && piece * 16 < target->plane.row_bytes;
          copy_async(to + piece * 16, is_read ? from + piece * 16 : from, is_read ? 16 : 0);
        }
      }
    }
    close_copies();
    position_ += kFlashPositions;
    locate();
  }

 private:
  static constexpr uint32_t kThreadsOfRow = 8;
  static constexpr uint32_t kRowsOfTurn = kFlashWarps * kWarp / kThreadsOfRow;
  static constexpr uint32_t kTurns = kFlashPositions / kRowsOfTurn;

  __device__ void locate() {
    const uint32_t block_size = p_.k.block_size;
    BP_UNROLL
    for (uint32_t i = 0; i < kTurns; ++i) {
      const uint32_t position = position_ + i * kRowsOfTurn;
      is_there_[i] = position >= seen_.begin && position < seen_.end;
      const uint32_t at = is_there_[i] ? position : seen_.begin, number = at / block_size;
      slot_[i] = at - number * block_size;
      block_[i] = static_cast<uint32_t>(blocks_[number]);
    }
  }

  const AttendParams& p_;
  const int32_t* blocks_;
  uint32_t kv_head_;
  Positions seen_;
  uint32_t position_;  // of the thread's first row of the next tile
  uint32_t block_[kTurns], slot_[kTurns];
  bool is_there_[kTurns];
};

// A cache of 16-bit floats: multiplied as it is, from as many stages as there are.
template <bool kF16>
class FlashTileOfHalves {
 public:
  static constexpr bool kKeysAreF16 = kF16, kValuesAreF16 = kF16;
  static constexpr bool kIsWidened = false;
  __device__ FlashTileOfHalves(const AttendParams& p, const FlashShapes& shapes, uint8_t* stages,
                               uint32_t sequence, uint32_t kv_head, const Positions& seen,
                               uint32_t first_tile)
      : source_(p, sequence, kv_head, seen, first_tile), shapes_(shapes), stages_(stages) {}

  __device__ void copy_next(uint32_t stage) {
    const AttendParams& p = source_.params();
    source_.copy_next({p.k, shapes_.k_columns / 8, bytes(k(stage)), shapes_.k_stride * 2},
                      {p.v, shapes_.v_columns / 8, bytes(v(stage)), shapes_.v_stride * 2});
  }
  __device__ void widen() const {}
  __device__ uint16_t* k(uint32_t stage) const {
    const uint32_t n_bytes = kFlashPositions * (shapes_.k_stride + shapes_.v_stride) * 2;
    return reinterpret_cast<uint16_t*>(stages_ + stage * n_bytes);
  }
  __device__ uint16_t* v(uint32_t stage) const {
    return k(stage) + kFlashPositions * shapes_.k_stride;
  }

 private:
  __device__ static uint8_t* bytes(uint16_t* at) { return reinterpret_cast<uint8_t*>(at); }
  FlashSource source_;
  FlashShapes shapes_;
  uint8_t* stages_;
};

// Which 16-bit floats hold all values of a type (8-bit floats) or nearly (8-bit integers, whose
// scales need the range of bf16).
[[nodiscard]] constexpr bool is_f16_in_tile(bp_dtype dtype) {
  return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_F8_E4M3;
}

// A cache with bytes in it: copied as it is, then widened into one tile of 16-bit floats.
template <bp_dtype kKeys, bp_dtype kValues>
class FlashTileOfBytes {
 public:
  static constexpr bool kKeysAreF16 = is_f16_in_tile(kKeys);
  static constexpr bool kValuesAreF16 = is_f16_in_tile(kValues);
  static constexpr bool kIsWidened = true;
  __device__ FlashTileOfBytes(const AttendParams& p, const FlashShapes& shapes, uint8_t* stages,
                              uint32_t sequence, uint32_t kv_head, const Positions& seen,
                              uint32_t first_tile)
      : source_(p, sequence, kv_head, seen, first_tile),
        shapes_(shapes),
        halves_(reinterpret_cast<uint16_t*>(stages)),
        raw_(stages + kFlashPositions * (shapes.k_stride + shapes.v_stride) * 2) {}

  __device__ void copy_next(uint32_t) {
    const AttendParams& p = source_.params();
    source_.copy_next({p.k, p.k.row_bytes / 16, raw_, p.k.row_bytes},
                      {p.v, p.v.row_bytes / 16, raw_of_v(), p.v.row_bytes});
  }
  __device__ void widen() const {
    const AttendParams& p = source_.params();
    widen_rows<kKeys>(p.k, raw_, shapes_.k_columns, shapes_.k_stride, k(0));
    widen_rows<kValues>(p.v, raw_of_v(), shapes_.v_columns, shapes_.v_stride, v(0));
    __syncthreads();
  }
  __device__ uint16_t* k(uint32_t) const { return halves_; }
  __device__ uint16_t* v(uint32_t) const { return halves_ + kFlashPositions * shapes_.k_stride; }

 private:
  __device__ uint8_t* raw_of_v() const {
    return raw_ + kFlashPositions * source_.params().k.row_bytes;
  }
  // A thread for eight columns of a row.
  template <bp_dtype kDtype>
  __device__ static void widen_rows(const KvPlane& plane, uint8_t* raw, uint32_t n_columns,
                                    uint32_t stride, uint16_t* to) {
    const uint32_t n_groups = n_columns / 8;
    for (uint32_t i = threadIdx.x; i < kFlashPositions * n_groups; i += blockDim.x) {
      const uint32_t row = i / n_groups, first = i % n_groups * 8;
      uint8_t* from = raw + row * plane.row_bytes;
      uint32_t words[4];
      BP_UNROLL
      for (uint32_t w = 0; w < 4; ++w) {
        const uint32_t d = first + 2 * w;
        const float low = d < plane.head_dim ? KvFormat<kDtype>::read(plane, from, d) : 0;
        const float high = d + 1 < plane.head_dim ? KvFormat<kDtype>::read(plane, from, d + 1) : 0;
        words[w] = pack_halves<is_f16_in_tile(kDtype)>(low, high);
      }
      *reinterpret_cast<uint4*>(to + row * stride + first) = {words[0], words[1], words[2],
                                                              words[3]};
    }
  }
  FlashSource source_;
  FlashShapes shapes_;
  uint16_t* halves_;
  uint8_t* raw_;
};

template <bp_dtype kKeys, bp_dtype kValues>
struct FlashTile : FlashTileOfBytes<kKeys, kValues> {
  using FlashTileOfBytes<kKeys, kValues>::FlashTileOfBytes;
};
template <>
struct FlashTile<BP_DTYPE_F16, BP_DTYPE_F16> : FlashTileOfHalves<true> {
  using FlashTileOfHalves<true>::FlashTileOfHalves;
};
template <>
struct FlashTile<BP_DTYPE_BF16, BP_DTYPE_BF16> : FlashTileOfHalves<false> {
  using FlashTileOfHalves<false>::FlashTileOfHalves;
};

}  // namespace bp::cuda

// Dot products of one strip of quantised weights with panels of kTileRows rows, in tile registers.
//
// A tile product of 16 rows and 32 columns costs less than folding its 256 sums into floats, which
// is what bounds these kernels; so tiles run kSlots products ahead of the folds.

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/amx/tile_config.hpp"
#include "backends/cpu/kernels/strip_formats.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::amx {
namespace {

using namespace avx512;

constexpr uint32_t kBlockQuants = 512;  // bytes of quants in an unpacked block
constexpr uint32_t kSlots = 4;
// The hardware's own prefetch stops at each page, and products leave it little time; the
// second-level cache waits for more lines at once than the first.
constexpr uint32_t kPrefetchFarBytes = 4096;
constexpr uint32_t kPrefetchNearBytes = 1024;
constexpr uint32_t kBlocksAhead = 2;  // unpacked before the product that reads them
constexpr uint32_t kRecordWords = kPanelWords * kTileRows;

// An unpacked block; see kTileBlockBytes.
struct Block {
  const uint8_t* bytes;
  [[nodiscard]] const float* scale(uint32_t half) const {
    return reinterpret_cast<const float*>(bytes + kBlockQuants) + 16 * half;
  }
  [[nodiscard]] const float* minimum(uint32_t half) const {
    return reinterpret_cast<const float*>(bytes + kBlockQuants) + 32 + 16 * half;
  }
};

template <class W, int K>
inline U8x64 signed_quants(const uint8_t* body) {
  if constexpr (W::kSigned) {
    return W::template signed_quants<K>(body);
  } else if constexpr (W::kOffset == 0) {
    return W::template quants<K>(body);
  } else {
    return sub_bytes(W::template quants<K>(body), W::kOffset);
  }
}

template <class W, int K>
inline void unpack_quants(const uint8_t* record, uint32_t b, uint8_t* out) {
  const U8x64 quants = signed_quants<W, K>(W::body(record, b));
  if constexpr (W::kHalfFactors) {
    store_bytes(out + 64 * K, mul_bytes(quants, W::factors(record, b, K / 4)));
  } else {
    store_bytes(out + 64 * K, quants);
  }
}

// Unpacks the blocks of a strip one after another.
template <class W>
class Unpacker {
 public:
  Unpacker(const uint8_t* strip, uint32_t n_blocks, uint8_t* blocks)
      : record_(strip), n_left_(n_blocks), out_(blocks) {
    for (uint32_t i = 0; i < kBlocksAhead; ++i) next();
  }

  // Does nothing after the last block.
  void next() {
    if (n_left_ == 0) return;
    --n_left_;
    uint8_t* out = out_;
    out_ += kTileBlockBytes;
    prefetch_block<W, 2>(W::body(record_, block_), kPrefetchFarBytes);
    prefetch_block<W, 1>(W::body(record_, block_), kPrefetchNearBytes);
    unpack_quants<W, 0>(record_, block_, out);
    unpack_quants<W, 1>(record_, block_, out);
    unpack_quants<W, 2>(record_, block_, out);
    unpack_quants<W, 3>(record_, block_, out);
    unpack_quants<W, 4>(record_, block_, out);
    unpack_quants<W, 5>(record_, block_, out);
    unpack_quants<W, 6>(record_, block_, out);
    unpack_quants<W, 7>(record_, block_, out);
    auto* floats = reinterpret_cast<float*>(out + kBlockQuants);
    store(floats, W::scale(record_, block_, 0));
    if constexpr (W::kHalves) store(floats + 16, W::scale(record_, block_, 1));
    if constexpr (W::kHasMinimum) store(floats + 32, W::minimum(record_, block_, 0));
    if constexpr (W::kHasMinimum && W::kHalfFactors) {
      store(floats + 48, W::minimum(record_, block_, 1));
    }
    if (++block_ == W::kBlocks) {
      block_ = 0;
      record_ += W::kRecordBytes;
    }
  }

  // After the last block: asks for part i of n of the strip that follows.
  void prefetch_next(uint32_t i, uint32_t n, uint32_t n_columns) const {
    const uint32_t n_bytes = n_columns / kPanelColumns / W::kBlocks * W::kRecordBytes;
    const uint32_t end = (i + 1) * n_bytes / n;
    for (uint32_t byte = i * n_bytes / n; byte < end; byte += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(record_) + byte, _MM_HINT_T1);
    }
  }

 private:
  const uint8_t* record_;
  uint32_t block_ = 0;
  uint32_t n_left_;
  uint8_t* out_;
};

// Tiles 0 to 3 hold sums, 4 and 5 activations, 6 and 7 weights; kColumns of both go into a product.
template <uint32_t kColumns>
void configure_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.row_bytes[tile] = tile == 4 || tile == 5 ? kColumns : 64;
    config.n_rows[tile] = tile == 6 || tile == 7 ? kColumns / 4 : kTileRows;
  }
  load_config(config);
}

// A block times the rows of a record: one tile product, or one for each half.
struct Product {
  Block weights;
  const int32_t* record;  // of the panel
  uint32_t begins_block;
};

// The products of a panel in order: records ascending, each block's second record after its first.
// Returns how many.
uint32_t list_products(const uint8_t* blocks, uint32_t n_blocks, const int32_t* panel,
                       Product* products) {
  const int32_t* second_of = panel + 1;
  const int32_t* record = panel + panel_header_words(n_blocks);
  const int32_t* seconds = record + size_t{n_blocks} * kRecordWords;
  Product* next = products;
  for (uint32_t b = 0; b < n_blocks; ++b) {
    *next++ = {{blocks}, record, 1};
    if (second_of[b] >= 0) {
      *next++ = {{blocks}, seconds + static_cast<size_t>(second_of[b]) * kRecordWords, 0};
    }
    record += kRecordWords;
    blocks += kTileBlockBytes;
  }
  return static_cast<uint32_t>(next - products);
}

static_assert(sizeof(Product) == 24);

struct alignas(64) Sums {
  int32_t of[kTileRows][kStripRows];
};

template <uint32_t kIndex>
struct Slot {};

// The compiler names tiles by literals only.
#define BP_START(slot, x_tile, w_tile)                                            \
  inline void start(Slot<slot>, const uint8_t* x, const uint8_t* w, Sums& sums) { \
    _tile_zero(slot);                                                             \
    _tile_loadd(x_tile, x, kPanelColumns);                                        \
    _tile_loadd(w_tile, w, 64);                                                   \
    _tile_dpbssd(slot, x_tile, w_tile);                                           \
    _tile_stored(slot, sums.of, 64);                                              \
  }
BP_START(0, 4, 6)
BP_START(1, 5, 7)
BP_START(2, 4, 6)
BP_START(3, 5, 7)
#undef BP_START

template <class W>
__attribute__((always_inline)) inline void fold_minimum(const Product& p, F32x16* y) {
  const auto* floats = reinterpret_cast<const float*>(p.record);
  const F32x16 minimum = load(p.weights.minimum(0));
  if constexpr (!W::kHalfFactors) {
    BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
      y[t] = fma(minimum, broadcast(floats[9 * kTileRows + t]), y[t]);
    }
  } else {
    const I32x16 half8 = load_ints(p.record + 11 * kTileRows);
    const F32x16 scales = load(floats + 8 * kTileRows);
    alignas(64) float first[kTileRows];
    alignas(64) float second[kTileRows];
    store(first, scaled_sum8(half8, scales));
    store(second, scaled_sum8(sub(load_ints(p.record + 10 * kTileRows), half8), scales));
    const F32x16 second_minimum = load(p.weights.minimum(1));
    BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
      y[t] = fma(minimum, broadcast(first[t]), y[t]);
      y[t] = fma(second_minimum, broadcast(second[t]), y[t]);
    }
  }
}

template <class W>
__attribute__((always_inline)) inline void fold(const Product& p, const Sums& sums, F32x16* y) {
  const auto* floats = reinterpret_cast<const float*>(p.record);
  const F32x16 scale = load(p.weights.scale(0));
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    y[t] = fma(to_float(load_ints(sums.of[t])), mul(scale, broadcast(floats[8 * kTileRows + t])),
               y[t]);
  }
  if constexpr (W::kHasMinimum) fold_minimum<W>(p, y);
}

__attribute__((always_inline)) inline void fold_halves(const Product& p, const Sums& first,
                                                       const Sums& second, F32x16* y) {
  const auto* floats = reinterpret_cast<const float*>(p.record);
  const F32x16 scale = load(p.weights.scale(0));
  const F32x16 second_scale = load(p.weights.scale(1));
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    const F32x16 both = fma(to_float(load_ints(second.of[t])), second_scale,
                            mul(to_float(load_ints(first.of[t])), scale));
    y[t] = fma(both, broadcast(floats[8 * kTileRows + t]), y[t]);
  }
}

// unpacker: of the strip, or null where its blocks are unpacked.
template <class W>
inline void unpack_for(const Product& p, Unpacker<W>* unpacker) {
  if (unpacker == nullptr || p.begins_block == 0) return;
  unpacker->next();
  __asm__ volatile("" ::: "memory");  // gcc's tile loads do not say that they read memory
}

template <uint32_t kIndex, class W>
__attribute__((always_inline)) inline void start_product(const Product& p, Unpacker<W>* unpacker,
                                                         Sums* slots) {
  unpack_for(p, unpacker);
  start(Slot<kIndex>{}, reinterpret_cast<const uint8_t*>(p.record), p.weights.bytes, slots[kIndex]);
}

template <uint32_t kIndex, class W>
__attribute__((always_inline)) inline void start_halves(const Product& p, Unpacker<W>* unpacker,
                                                        Sums* slots) {
  unpack_for(p, unpacker);
  const auto* x = reinterpret_cast<const uint8_t*>(p.record);
  start(Slot<kIndex>{}, x, p.weights.bytes, slots[kIndex]);
  start(Slot<kIndex + 1>{}, x + 16, p.weights.bytes + 256, slots[kIndex + 1]);
}

template <class W>
void dot_products(const Product* products, uint32_t n, Unpacker<W>* unpacker, F32x16* y) {
  Sums slots[kSlots];
  start_product<0>(products[0], unpacker, slots);
  if (n > 1) start_product<1>(products[1], unpacker, slots);
  if (n > 2) start_product<2>(products[2], unpacker, slots);
  if (n > 3) start_product<3>(products[3], unpacker, slots);
  for (uint32_t i = 0; i < n; i += 4) {
    fold<W>(products[i], slots[0], y);
    if (i + 4 < n) start_product<0>(products[i + 4], unpacker, slots);
    if (i + 1 < n) fold<W>(products[i + 1], slots[1], y);
    if (i + 5 < n) start_product<1>(products[i + 5], unpacker, slots);
    if (i + 2 < n) fold<W>(products[i + 2], slots[2], y);
    if (i + 6 < n) start_product<2>(products[i + 6], unpacker, slots);
    if (i + 3 < n) fold<W>(products[i + 3], slots[3], y);
    if (i + 7 < n) start_product<3>(products[i + 7], unpacker, slots);
  }
}

template <class W>
void dot_halves(const Product* products, uint32_t n, Unpacker<W>* unpacker, F32x16* y) {
  Sums slots[kSlots];
  start_halves<0>(products[0], unpacker, slots);
  if (n > 1) start_halves<2>(products[1], unpacker, slots);
  for (uint32_t i = 0; i < n; i += 2) {
    fold_halves(products[i], slots[0], slots[1], y);
    if (i + 2 < n) start_halves<0>(products[i + 2], unpacker, slots);
    if (i + 1 < n) fold_halves(products[i + 1], slots[2], slots[3], y);
    if (i + 3 < n) start_halves<2>(products[i + 3], unpacker, slots);
  }
}

template <class W>
void dot_panel(const Product* products, uint32_t n, Unpacker<W>* unpacker, float* out,
               size_t out_stride) {
  F32x16 y[kTileRows];
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) y[t] = zero();
  if constexpr (W::kHalves) {
    dot_halves(products, n, unpacker, y);
  } else {
    dot_products(products, n, unpacker, y);
  }
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) store(out + t * out_stride, y[t]);
}

// The first panel unpacks the strip on its way; while the others compute, the next strip comes
// near.
template <class W>
void tile_dot(const uint8_t* strip, uint32_t n_columns, const int32_t* panels, size_t panel_words,
              uint32_t n_panels, float* y, size_t y_stride, uint8_t* scratch) {
  configure_tiles<W::kHalves ? 16 : 32>();
  const uint32_t n_blocks = n_columns / kPanelColumns;
  auto* products = reinterpret_cast<Product*>(scratch + size_t{n_blocks} * kTileBlockBytes);
  Unpacker<W> unpacker(strip, n_blocks, scratch);
  for (uint32_t p = 0; p < n_panels; ++p) {
    const uint32_t n = list_products(scratch, n_blocks, panels + p * panel_words, products);
    if (p > 0) unpacker.prefetch_next(p - 1, n_panels - 1, n_columns);
    dot_panel<W>(products, n, p == 0 ? &unpacker : nullptr, y + p * kTileRows * y_stride, y_stride);
  }
  _tile_release();
}

}  // namespace

void set_tile_kernels(Kernels& kernels) {
  kernels.max_panel_rows = kTileRows;
  for_each_format([&](auto format, StripLayout layout) {
    kernels.tile_dot[static_cast<int>(layout)] = tile_dot<decltype(format)>;
  });
}

}  // namespace bp::cpu::amx

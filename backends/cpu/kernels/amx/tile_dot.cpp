// Dot products of strips of quantised weights with panels of kTileRows rows, in tile registers.
//
// A tile product of 16 rows and 32 columns costs less than folding its 256 sums into floats, which
// is what bounds these kernels; so tiles run kSlots products ahead of the folds. For hundreds of
// cycles after a tile instruction only one of the two units for wide float products, conversions
// and shifts works; the other still adds, in floats too.

#include "backends/cpu/kernels/simd_avx512.hpp"
// clang-format keeps what defines the lanes first.
#include "backends/cpu/kernels/amx/tile_config.hpp"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/strip_formats.inl"
#include "backends/cpu/kernels/sum_scale.inl"
#include "backends/cpu/kernels/unroll.hpp"

#include <type_traits>

namespace bp::cpu::amx {
namespace {

using namespace avx512;

constexpr uint32_t kSlots = 4;
constexpr uint32_t kBlocksAhead = 4;  // unpacked before the product that reads them
// One panel needs an unpacked block no longer than its product, and the first-level cache keeps
// few.
constexpr uint32_t kRingBlocks = 16;
constexpr uint32_t kRecordWords = kPanelWords * kTileRows;

// Quants of whole bytes lie in the strip as tiles take them.
template <class W>
constexpr bool kInPlace = std::is_base_of_v<WholeBytes, W>;

constexpr uint32_t kHalfQuants = 256;  // bytes, of an unpacked block
constexpr uint32_t kBlockQuants = 2 * kHalfQuants;

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
__attribute__((always_inline)) inline void unpack_quants(const uint8_t* record, uint32_t b,
                                                         uint8_t* out) {
  const U8x64 quants = signed_quants<W, K>(W::body(record, b));
  if constexpr (W::kHalfFactors) {
    store_bytes(out + 64 * K, mul_bytes(quants, W::factors(record, b, K / 4)));
  } else {
    store_bytes(out + 64 * K, quants);
  }
}

// Blocks [begin, end) of n_blocks; unpacked they stand in rings of n_ring. One panel meets strips
// whole. Several meet kTilePartBlocks of kTileStrips strips at a time, so that what is read of a
// panel stays in the first-level cache for all of these.
static_assert(kTilePartBlocks % kHalfSumBlocks == 0);  // parts end where records do
struct Part {
  uint32_t begin, end, n_blocks, n_ring;
  [[nodiscard]] uint32_t n() const { return end - begin; }
};

template <class W>
uint32_t part_bytes(uint32_t n_blocks) {
  return n_blocks / W::kBlocks * W::kRecordBytes;
}

// Unpacks the blocks of a part of a strip one after another into a ring.
template <class W>
class Unpacker {
 public:
  Unpacker(const uint8_t* strip, const Part& part, uint8_t* ring)
      : record_(strip + part_bytes<W>(part.begin)),
        n_left_(part.n()),
        ring_(ring),
        n_ring_(part.n_ring) {
    for (uint32_t i = 0; i < kBlocksAhead; ++i) next();
  }

  // Does nothing after the last block.
  __attribute__((always_inline)) void next() {
    if (n_left_ == 0) return;
    --n_left_;
    // Copies, since bytes that are written could be members.
    const uint8_t* const record = record_;
    const uint32_t b = block_;
    uint8_t* const out = ring_ + size_t{place_} * kTileBlockBytes;
    place_ = place_ + 1 == n_ring_ ? 0 : place_ + 1;
    block_ = b + 1 == W::kBlocks ? 0 : b + 1;
    record_ = b + 1 == W::kBlocks ? record + W::kRecordBytes : record;
    prefetch_far_and_near<W>(W::body(record, b));
    unpack(record, b, out);
  }

 private:
  __attribute__((always_inline)) static void unpack(const uint8_t* record, uint32_t b,
                                                    uint8_t* out) {
    if constexpr (!kInPlace<W>) {
      unpack_quants<W, 0>(record, b, out);
      unpack_quants<W, 1>(record, b, out);
      unpack_quants<W, 2>(record, b, out);
      unpack_quants<W, 3>(record, b, out);
      unpack_quants<W, 4>(record, b, out);
      unpack_quants<W, 5>(record, b, out);
      unpack_quants<W, 6>(record, b, out);
      unpack_quants<W, 7>(record, b, out);
    }
    auto* floats = reinterpret_cast<float*>(out + kBlockQuants);
    if constexpr (!kFoldsRecords<W>) store(floats, unit_scale<W>(record, b, 0));
    if constexpr (W::kHalves) store(floats + 16, unit_scale<W>(record, b, 1));
    if constexpr (W::kHasMinimum && !kFoldsRecords<W>) store(floats + 32, W::minimum(record, b));
  }

  const uint8_t* record_;
  uint32_t block_ = 0;  // of the record
  uint32_t n_left_;
  uint8_t* ring_;
  uint32_t n_ring_;
  uint32_t place_ = 0;  // in the ring
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

// A block times the rows of a record: one tile product, or one for each half. Blocks by their
// places, which are the same in every strip.
struct Product {
  const int32_t* record;  // of the panel
  uint32_t quants;        // in bytes, of the strip or of the unpacked blocks
  uint32_t floats;        // in bytes, of the unpacked blocks
  uint32_t begins_block;
  uint32_t ends_record;  // 1 + its index; 0 where others of the record follow
};
static_assert(sizeof(Product) == 24 && kTileProductBytes >= 2 * sizeof(Product));

// The products of a panel in order: records ascending, each block's second record after its first.
// Returns how many; behind them follow kSlots more, which are only started.
template <class W>
uint32_t list_products(const Part& part, const int32_t* panel, Product* products) {
  const int32_t* second_of = panel + 1;
  const int32_t* records = panel + panel_records_word(part.n_blocks, kTileRows);
  const int32_t* seconds = records + size_t{part.n_blocks} * kRecordWords;
  Product* next = products;
  for (uint32_t b = part.begin; b < part.end; ++b) {
    const uint32_t place = (b - part.begin) % part.n_ring * kTileBlockBytes;
    const uint32_t in_strip = b / W::kBlocks * W::kRecordBytes + W::kShape.header_bytes +
                              b % W::kBlocks * W::kShape.body_bytes;
    const int32_t* record = records + size_t{b} * kRecordWords;
    const Product first{record, kInPlace<W> ? in_strip : place, place + kBlockQuants, 1, 0};
    *next++ = first;
    if (second_of[b] >= 0) {
      *next = first;
      next->record = seconds + static_cast<size_t>(second_of[b]) * kRecordWords;
      next++->begins_block = 0;
    }
    const bool is_last = b + 1 == part.end || (b + 1) % W::kBlocks == 0;
    if (is_last) next[-1].ends_record = b / W::kBlocks + 1;
  }
  for (uint32_t i = 0; i < kSlots; ++i) {
    next[i] = next[-1];
    next[i].begins_block = 0;
  }
  return static_cast<uint32_t>(next - products);
}

struct alignas(64) Sums {
  int32_t of[kTileRows][kStripRows];
};

template <uint32_t kIndex>
struct Tile {};

// The compiler names tiles by literals only.
#define BP_TILE(tile, x_tile, w_tile)                                            \
  __attribute__((always_inline)) inline void start(Tile<tile>, const uint8_t* x, \
                                                   const uint8_t* w) {           \
    _tile_zero(tile);                                                            \
    _tile_loadd(x_tile, x, kPanelColumns);                                       \
    _tile_loadd(w_tile, w, 64);                                                  \
    _tile_dpbssd(tile, x_tile, w_tile);                                          \
  }                                                                              \
  __attribute__((always_inline)) inline void finish(Tile<tile>, Sums& sums) {    \
    _tile_stored(tile, sums.of, 64);                                             \
  }
BP_TILE(0, 4, 6)
BP_TILE(1, 5, 7)
BP_TILE(2, 4, 6)
BP_TILE(3, 5, 7)
#undef BP_TILE

// Begun at kSumStart after all: conversions wait for the one unit that multiplies.
__attribute__((always_inline)) inline I32x16 started(const int32_t* sums) {
  return add(load_ints(sums), broadcast_int(kSumStart));
}

// floats: of the unpacked block
template <class W>
__attribute__((always_inline)) inline void fold(const int32_t* record, const float* floats,
                                                const Sums& sums, F32x16* y) {
  const auto* x = reinterpret_cast<const float*>(record);
  const SumScale<W::kSubtractsStart> scale(kFoldsRecords<W> ? zero() : load(floats));
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    const I32x16 bits = started(sums.of[t]);
    const F32x16 sum = kFoldsRecords<W> ? value_of(bits) : scale.times(bits);
    y[t] = fma(sum, broadcast(x[8 * kTileRows + t]), y[t]);
    if constexpr (W::kHasMinimum && !kFoldsRecords<W>) {
      y[t] = fma(load(floats + 32), broadcast(x[9 * kTileRows + t]), y[t]);
    }
  }
}

// Adds a record's minimums times the half sums of its columns to the rows of out.
template <class W>
void add_minimums(const uint8_t* record, const int32_t* half_sums, uint32_t n_blocks, float* out,
                  size_t out_stride) {
  I32x16 sums[kTileRows];
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) sums[t] = broadcast_int(0);
  for (uint32_t b = 0; b < n_blocks; ++b) {
    const FactorPairs factors = W::minimum_factors(record, b);
    BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
      sums[t] = add_pair_products(sums[t], factors, half_sums[b * kTileRows + t]);
    }
  }
  const F32x16 minimum = W::minimum(record, 0);
  const auto* units = reinterpret_cast<const float*>(half_sums) + kHalfSumBlocks * kTileRows;
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    float* row = out + t * out_stride;
    store(row, fma(to_float(sums[t]), mul(minimum, broadcast(units[t])), load(row)));
  }
}

// Adds a record's products [kTileRows][kStripRows], and its minimums, to the rows of out. Not
// inlined: the registers hold products.
template <class W>
__attribute__((noinline)) void fold_record(const uint8_t* record, const int32_t* half_sums,
                                           uint32_t n_blocks, const float* products, float* out,
                                           size_t out_stride) {
  if constexpr (W::kHasMinimum) add_minimums<W>(record, half_sums, n_blocks, out, out_stride);
  const F32x16 scale = W::scale(record, 0, 0);
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    float* row = out + t * out_stride;
    store(row, fma(load(products + t * kStripRows), scale, load(row)));
  }
}

// Where rows of results lie, and the panel that they are of.
struct Results {
  float* rows;
  size_t stride;
  const int32_t* panel;
  uint32_t n_blocks;
};

template <class W>
__attribute__((always_inline)) inline void end_record(const uint8_t* strip, uint32_t index,
                                                      const Results& results, F32x16* y) {
  alignas(64) float products[kTileRows * kStripRows];
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    store(products + t * kStripRows, y[t]);
    y[t] = zero();
  }
  static_assert(W::kBlocks == kHalfSumBlocks);
  const uint32_t n_left = results.n_blocks - index * W::kBlocks;
  const int32_t* half_sums = results.panel + panel_header_words(results.n_blocks) +
                             size_t{index} * kHalfSumWords * kTileRows;
  fold_record<W>(strip + size_t{index} * W::kRecordBytes, half_sums,
                 n_left < W::kBlocks ? n_left : W::kBlocks, products, results.rows, results.stride);
}

template <class W>
__attribute__((always_inline)) inline void fold_halves(const int32_t* record, const float* floats,
                                                       const Sums* sums, F32x16* y) {
  const auto* x = reinterpret_cast<const float*>(record);
  const SumScale<W::kSubtractsStart> first(load(floats));
  const F32x16 second = load(floats + 16);
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) {
    const F32x16 of_first = first.times(started(sums[0].of[t]));
    const F32x16 both = fma(value_of(started(sums[1].of[t])), second, of_first);
    y[t] = fma(both, broadcast(x[8 * kTileRows + t]), y[t]);
  }
}

// Where the products of a strip find its blocks.
template <class W>
struct Blocks {
  const uint8_t* strip;
  uint8_t* unpacked;
  [[nodiscard]] const uint8_t* quants(const Product& p) const {
    return (kInPlace<W> ? strip : unpacked) + p.quants;
  }
  [[nodiscard]] const float* floats(const Product& p) const {
    return reinterpret_cast<const float*>(unpacked + p.floats);
  }
};

// gcc's tile loads and stores do not say that they touch memory.
inline void keep_order() {
  __asm__ volatile("" ::: "memory");
}

template <uint32_t kTile, bool kUnpack, class W>
__attribute__((always_inline)) inline void start_product(const Product& p, const Blocks<W>& blocks,
                                                         Unpacker<W>* unpacker) {
  if constexpr (kUnpack) {
    if (p.begins_block != 0) unpacker->next();
  }
  keep_order();
  const auto* x = reinterpret_cast<const uint8_t*>(p.record);
  if constexpr (W::kHalves) {
    start(Tile<kTile>{}, x, blocks.quants(p));
    start(Tile<kTile + 1>{}, x + 16, blocks.quants(p) + kHalfQuants);
  } else {
    start(Tile<kTile>{}, x, blocks.quants(p));
  }
}

// Sums leave their tile two products later, so that storing them waits for nothing, and are folded
// two products after that. The list has kSlots more products than n.
template <bool kUnpack, class W>
__attribute__((always_inline)) inline void dot_products(const Product* p, uint32_t n,
                                                        const Blocks<W>& blocks,
                                                        Unpacker<W>* unpacker,
                                                        const Results& results, F32x16* y) {
  Sums slots[kSlots];
  start_product<0, kUnpack>(p[0], blocks, unpacker);
  start_product<1, kUnpack>(p[1], blocks, unpacker);
  finish(Tile<0>{}, slots[0]);
  start_product<2, kUnpack>(p[2], blocks, unpacker);
  finish(Tile<1>{}, slots[1]);
  start_product<3, kUnpack>(p[3], blocks, unpacker);
  const auto step = [&](auto tile, auto before, const Product* next)
      __attribute__((always_inline)) {
    keep_order();
    fold<W>(next->record, blocks.floats(*next), slots[tile], y);
    if constexpr (kFoldsRecords<W>) {
      const uint32_t end = next->ends_record;
      if (end != 0) end_record<W>(blocks.strip, end - 1, results, y);
    }
    start_product<tile, kUnpack>(next[kSlots], blocks, unpacker);
    finish(Tile<before>{}, slots[before]);
  };
  constexpr std::integral_constant<uint32_t, 0> k0;
  constexpr std::integral_constant<uint32_t, 1> k1;
  constexpr std::integral_constant<uint32_t, 2> k2;
  constexpr std::integral_constant<uint32_t, 3> k3;
  const Product* const end = p + n;
  while (true) {
    step(k0, k2, p);
    if (p + 1 == end) break;
    step(k1, k3, p + 1);
    if (p + 2 == end) break;
    step(k2, k0, p + 2);
    if (p + 3 == end) break;
    step(k3, k1, p + 3);
    p += kSlots;
    if (p == end) break;
  }
}

template <bool kUnpack, class W>
__attribute__((always_inline)) inline void dot_halves(const Product* p, uint32_t n,
                                                      const Blocks<W>& blocks,
                                                      Unpacker<W>* unpacker, F32x16* y) {
  Sums slots[4][2];
  start_product<0, kUnpack>(p[0], blocks, unpacker);
  start_product<2, kUnpack>(p[1], blocks, unpacker);
  finish(Tile<0>{}, slots[0][0]);
  finish(Tile<1>{}, slots[0][1]);
  start_product<0, kUnpack>(p[2], blocks, unpacker);
  finish(Tile<2>{}, slots[1][0]);
  finish(Tile<3>{}, slots[1][1]);
  for (uint32_t i = 0; i < n; i += 2) {
    keep_order();
    fold_halves<W>(p[i].record, blocks.floats(p[i]), slots[i % 4], y);
    start_product<2, kUnpack>(p[i + 3], blocks, unpacker);
    finish(Tile<0>{}, slots[(i + 2) % 4][0]);
    finish(Tile<1>{}, slots[(i + 2) % 4][1]);
    if (i + 1 == n) break;
    keep_order();
    fold_halves<W>(p[i + 1].record, blocks.floats(p[i + 1]), slots[(i + 1) % 4], y);
    start_product<0, kUnpack>(p[i + 4], blocks, unpacker);
    finish(Tile<2>{}, slots[(i + 3) % 4][0]);
    finish(Tile<3>{}, slots[(i + 3) % 4][1]);
  }
}

// continues: the results hold the sums of the parts before.
template <bool kUnpack, class W>
void dot_panel(const Product* products, uint32_t n, const Blocks<W>& blocks, Unpacker<W>* unpacker,
               const Results& results, bool continues) {
  F32x16 y[kTileRows];
  const auto row = [&](uint32_t t) { return results.rows + t * results.stride; };
  const auto put = [&] { BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) store(row(t), y[t]); };
  BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) y[t] = zero();
  if constexpr (kFoldsRecords<W>) {
    if (!continues) put();  // records are added to it
  } else if (continues) {
    BP_UNROLL for (uint32_t t = 0; t < kTileRows; ++t) y[t] = load(row(t));
  }
  if constexpr (W::kHalves) {
    dot_halves<kUnpack>(products, n, blocks, unpacker, y);
  } else {
    dot_products<kUnpack>(products, n, blocks, unpacker, results, y);
  }
  if constexpr (!kFoldsRecords<W>) put();
}

// Asks for share i of n of what comes after a part of strip s: its next columns or, after the last,
// the first ones of the strip that takes its place.
template <class W>
void prefetch_next(const TileStrips& strips, uint32_t s, const Part& part, uint32_t i, uint32_t n) {
  const bool is_last = part.end == part.n_blocks;
  const uint8_t* next = strips.first + (is_last ? s + strips.n : s) * strips.bytes +
                        (is_last ? 0 : part_bytes<W>(part.end));
  const uint32_t n_left = is_last ? part.n_blocks : part.n_blocks - part.end;
  const uint32_t n_bytes = part_bytes<W>(n_left < kTilePartBlocks ? n_left : kTilePartBlocks);
  const uint32_t end = (i + 1) * n_bytes / n;
  for (uint32_t byte = i * n_bytes / n; byte < end; byte += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(next) + byte, _MM_HINT_T1);
  }
}

// n panels, words apart, and where their results begin.
struct Panels {
  const int32_t* first;
  size_t words;
  uint32_t n;
  float* y;
  size_t y_stride;
};

// The first panel unpacks the strips on its way; while the others compute, what follows comes near.
template <class W>
void dot_part(const TileStrips& strips, const Part& part, const Panels& panels, uint8_t* unpacked,
              Product* products) {
  for (uint32_t p = 0; p < panels.n; ++p) {
    const int32_t* const panel = panels.first + p * panels.words;
    const uint32_t n = list_products<W>(part, panel, products);
    for (uint32_t s = 0; s < strips.n; ++s) {
      uint8_t* const ring =
          unpacked + (panels.n == 1 ? 0 : size_t{s} * part.n_ring * kTileBlockBytes);
      const Blocks<W> blocks{strips.first + s * strips.bytes, ring};
      const Results results{panels.y + p * kTileRows * panels.y_stride + s * kStripRows,
                            panels.y_stride, panel, part.n_blocks};
      const bool continues = part.begin > 0;
      if (p == 0) {
        Unpacker<W> unpacker(blocks.strip, part, ring);
        dot_panel<true>(products, n, blocks, &unpacker, results, continues);
      } else {
        prefetch_next<W>(strips, s, part, p - 1, panels.n - 1);
        dot_panel<false, W>(products, n, blocks, nullptr, results, continues);
      }
    }
  }
}

template <class W>
void tile_dot(const TileStrips& strips, uint32_t n_columns, const int32_t* panels,
              size_t panel_words, uint32_t n_panels, float* y, size_t y_stride, uint8_t* scratch) {
  configure_tiles<W::kHalves ? 16 : 32>();
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const uint32_t n_part = n_panels == 1 || n_blocks < kTilePartBlocks ? n_blocks : kTilePartBlocks;
  const uint32_t n_ring = n_panels == 1 ? kRingBlocks : n_part;
  auto* products = reinterpret_cast<Product*>(scratch + tile_unpacked_bytes(n_blocks));
  for (uint32_t s = 0; s < strips.n; s += kTileStrips) {
    const uint32_t n_left = strips.n - s;
    const TileStrips together{strips.first + s * strips.bytes, strips.bytes,
                              n_left < kTileStrips ? n_left : kTileStrips};
    const Panels all{panels, panel_words, n_panels, y + s * kStripRows, y_stride};
    for (uint32_t b = 0; b < n_blocks; b += n_part) {
      const uint32_t end = b + n_part < n_blocks ? b + n_part : n_blocks;
      dot_part<W>(together, {b, end, n_blocks, n_ring}, all, scratch, products);
    }
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

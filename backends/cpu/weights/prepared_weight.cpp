#include "backends/cpu/weights/prepared_weight.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "backends/cpu/round_up.hpp"
#include "backends/cpu/weights/pack_strips.hpp"
#include "backplane/dtype.hpp"
#include "backplane/program_view.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::cpu {

namespace {

std::optional<FloatType> float_type_of(bp_dtype dtype) {
  if (dtype == BP_DTYPE_F32) return FloatType::kF32;
  if (dtype == BP_DTYPE_F16) return FloatType::kF16;
  if (dtype == BP_DTYPE_BF16) return FloatType::kBF16;
  return std::nullopt;
}

}  // namespace

// The pair of strips after the one that is multiplied. Each panel asks for as much of it as it has
// of the rows: memory is read as long as products take, not while the first panel waits for it.
class PreparedWeight::NextPair {
 public:
  NextPair(const uint8_t* pair, size_t strip_bytes, uint32_t n_columns, uint32_t n_rows)
      : from_(pair),
        end_(pair + 2 * strip_bytes),
        block_bytes_(2 * strip_bytes / (n_columns / kPanelColumns)),
        n_rows_(n_rows) {}

  // Of a panel of n rows, for so many blocks of its columns.
  Ahead share(uint32_t n, uint32_t n_blocks) {
    if (from_ >= end_) return {from_, 0};
    const size_t all = size_t{kLine} * n_rows_;
    const auto n_lines = static_cast<uint32_t>((block_bytes_ * n + all - 1) / all);
    return {std::exchange(from_, from_ + size_t{n_lines} * kLine * n_blocks), n_lines};
  }

 private:
  static constexpr uint32_t kLine = 64;
  const uint8_t* from_;
  const uint8_t* end_;
  size_t block_bytes_;  // of 32 columns
  uint32_t n_rows_;
};

WeightRows WeightRows::of(const bp_weight& weight) {
  const bp_weight_part& part = *data_part(weight);
  uint64_t n_rows = 1;
  for (uint32_t d = 0; d + 1 < part.n_dims; ++d) n_rows *= part.dims[d];
  const uint64_t n_columns = part.dims[part.n_dims - 1];
  const uint64_t dense = row_bytes(part.dtype, n_columns);
  return {static_cast<const uint8_t*>(part.data),
          part.n_dims == 1 ? dense : part.row_stride_bytes,
          part.dtype,
          static_cast<uint32_t>(n_rows),
          static_cast<uint32_t>(n_columns),
          part.file,
          part.file_offset};
}

WeightRows WeightRows::slice(uint64_t first, uint64_t n) const {
  WeightRows part = *this;
  part.data = row(first);
  part.file_offset += first * row_stride_bytes;
  part.n_rows = static_cast<uint32_t>(n);
  return part;
}

uint64_t WeightRows::source_bytes() const {
  return n_rows == 0 ? 0 : (n_rows - 1) * row_stride_bytes + row_bytes(dtype, n_columns);
}

PreparedWeight::PreparedWeight(const WeightRows& rows, Prepare prepare, Bf16Layout bf16_layout)
    : rows_(rows) {
  if (const auto layout = strip_layout_of(rows.dtype)) {
    layout_ = *layout;
    strip_bytes_ = cpu::strip_bytes(*layout, rows.n_columns);
    form_ = prepare == Prepare::kNone ? Form::kBlocks : Form::kStrips;
  } else if (const auto type = float_type_of(rows.dtype)) {
    float_type_ = *type;
    form_ = Form::kFloats;
    // Rows that are in no file lie in memory, which strips beside them would double.
    const bool may_pack = prepare != Prepare::kNone && rows.file != BP_NONE;
    if (takes_bf16() && bf16_layout != Bf16Layout::kRows && may_pack) {
      form_ = Form::kBf16;
      strip_bytes_ = bf16_strip_bytes(bf16_layout, rows.n_columns);
      bf16_layout_ = bf16_layout;
    }
  }
}

Result<WeightArena::Piece> PreparedWeight::own(size_t n_bytes, WeightArena& arena) {
  BP_ASSIGN(WeightArena::Piece piece, arena.allocate(n_bytes));
  owned_bytes_ = n_bytes;
  return piece;
}

Status PreparedWeight::place(const Team& team, WeightArena& arena) {
  if (form_ == Form::kFloats) return align(arena);
  if (is_placed()) return {};
  BP_ASSIGN(const WeightArena::Piece strips, own(packed_bytes(), arena));
  team.parallel_for(n_strips(), [&](uint64_t i) {
    pack_into(static_cast<uint32_t>(i), 1, strips.get() + i * strip_bytes_);
  });
  strips_ = strips;
  return {};
}

void PreparedWeight::pack_into(uint32_t first, uint32_t n, uint8_t* to) const {
  for (uint32_t strip = first; strip < first + n; ++strip, to += strip_bytes_) {
    const uint8_t* rows = rows_.row(uint64_t{strip} * kStripRows);
    if (form_ == Form::kBf16) {
      pack_bf16_strip(rows, rows_.row_stride_bytes, rows_of_strip(strip), rows_.n_columns,
                      bf16_layout_, to);
    } else {
      pack_strip(rows_.dtype, rows, rows_.row_stride_bytes, rows_of_strip(strip), rows_.n_columns,
                 to);
    }
  }
}

// Kernels read whole elements: rows that a file put at odd addresses are copied.
Status PreparedWeight::align(WeightArena& arena) {
  const size_t element = dtype_info(rows_.dtype).block_bytes;
  if (reinterpret_cast<uintptr_t>(rows_.data) % element == 0 &&
      rows_.row_stride_bytes % element == 0) {
    return {};
  }
  const size_t stride = row_bytes(rows_.dtype, rows_.n_columns);
  BP_ASSIGN(const WeightArena::Piece copy, own(rows_.n_rows * stride, arena));
  for (uint32_t r = 0; r < rows_.n_rows; ++r) {
    std::memcpy(copy.get() + r * stride, rows_.row(r), stride);
  }
  rows_.data = copy.get();
  rows_.row_stride_bytes = stride;
  strips_ = copy;
  return {};
}

std::span<const uint8_t> PreparedWeight::bytes() const {
  if (has_strips()) return {strips_.get(), packed_bytes()};
  return {rows_.data, rows_.source_bytes()};
}

uint32_t PreparedWeight::rows_of_strip(uint32_t strip) const {
  return std::min(kStripRows, rows_.n_rows - strip * kStripRows);
}

size_t PreparedWeight::scratch_bytes(const Kernels& kernels) const {
  const auto layout = static_cast<int>(layout_);
  const bool in_tiles = kernels.tile_dot[layout] != nullptr;
  const size_t tiles = in_tiles ? tile_scratch_bytes(rows_.n_columns) : 0;
  if (form_ == Form::kStrips) {
    return std::max(tiles,
                    kernels.unpacking_pair_dot[layout] != nullptr ? size_t{2} * kUnpackedBytes : 0);
  }
  if (form_ == Form::kBlocks) return round_up(strip_bytes_, 64) + tiles;
  if (form_ == Form::kBf16 && bf16_layout_ == Bf16Layout::kSplit) {
    return size_t{kBf16Strips} * kStripRows * rows_.n_columns * kernels.bf16_bytes;
  }
  if (form_ == Form::kDecoded) {
    return round_up(size_t{kStripRows} * rows_.n_columns * sizeof(float), 64);
  }
  return 0;
}

void PreparedWeight::dot_strips(const Kernels& kernels, uint32_t strip, uint32_t n_strips,
                                const Activations& x, uint32_t first, uint32_t n, float* y,
                                size_t y_stride, uint8_t* scratch) const {
  if (form_ == Form::kStrips) {
    const TileStrips strips{strips_.get() + strip * strip_bytes_, strip_bytes_, n_strips};
    return dot_packed(kernels, strips, x, first, n, y, y_stride, scratch);
  }
  if (takes_bf16() && kernels.bf16_dot != nullptr) {
    return dot_bf16(kernels, strip, n_strips, x, first, n, y, y_stride, scratch);
  }
  for (uint32_t s = strip; s < strip + n_strips; ++s, y += kStripRows) {
    dot_strip(kernels, s, x, first, n, y, y_stride, scratch);
  }
}

void PreparedWeight::dot_packed(const Kernels& kernels, const TileStrips& strips,
                                const Activations& x, uint32_t first, uint32_t n, float* y,
                                size_t y_stride, uint8_t* scratch) const {
  const auto layout = static_cast<int>(layout_);
  const TileDot tile_dot = kernels.tile_dot[layout];
  const uint32_t n_panels = tile_dot != nullptr ? n / kTileRows : 0;
  if (n_panels > 0) {
    const size_t words = panel_words(kTileRows, rows_.n_columns);
    tile_dot(strips, rows_.n_columns, x.panels + first / kTileRows * words, words, n_panels, y,
             y_stride, scratch);
  }
  const uint32_t n_in_tiles = n_panels * kTileRows;
  const uint32_t begin = first + n_in_tiles, end = first + n;
  y += n_in_tiles * y_stride;
  const StripDot* dots = kernels.strip_dot[layout];
  const StripPairDot* pair_dots = kernels.strip_pair_dot[layout];
  const UnpackedPairDot* unpacked_dots = kernels.unpacked_pair_dot[layout];
  const bool in_pairs = n > kStreamedRows;
  const bool unpacks =
      kernels.unpacking_pair_dot[layout] != nullptr && end - begin >= kernels.unpacked_from[layout];
  const uint32_t n_blocks = rows_.n_columns / kPanelColumns;
  for (uint32_t s = 0; s < strips.n; s += 2, y += 2 * kStripRows) {
    const uint8_t* strip = strips.first + s * strips.bytes;
    const bool is_pair = in_pairs && s + 1 < strips.n;
    NextPair next(strip + 2 * strips.bytes, strips.bytes, rows_.n_columns, n);
    const bool is_unpacked = unpacks && is_pair;
    if (is_unpacked) dot_unpacked(kernels, strip, x, begin, end, next, y, y_stride, scratch);
    for_each_panel(begin, end, kernels.max_panel_rows, rows_.n_columns,
                   [&](const PanelPlace& panel) {
                     const int32_t* content = x.panels + panel.word;
                     float* out = y + (panel.first - begin) * y_stride;
                     const bool is_first = panel.first == first;
                     if (is_unpacked && unpacked_dots[panel.n] != nullptr) return;
                     if (is_pair && pair_dots[panel.n] != nullptr) {
                       return pair_dots[panel.n](strip, strips.bytes, next.share(panel.n, n_blocks),
                                                 rows_.n_columns, content, out, y_stride);
                     }
                     dots[panel.n](strip, is_first, rows_.n_columns, content, out, y_stride);
                     if (s + 1 == strips.n) return;
                     dots[panel.n](strip + strips.bytes, is_first, rows_.n_columns, content,
                                   out + kStripRows, y_stride);
                   });
  }
}

void PreparedWeight::dot_unpacked(const Kernels& kernels, const uint8_t* pair, const Activations& x,
                                  uint32_t begin, uint32_t end, NextPair& next, float* y,
                                  size_t y_stride, uint8_t* scratch) const {
  const auto layout = static_cast<int>(layout_);
  StripPart part{0, 0, rows_.n_columns / kPanelColumns};
  for (; part.begin < part.n_blocks; part.begin = part.end) {
    part.end = std::min(part.begin + kUnpackedBlocks, part.n_blocks);
    for_each_panel(begin, end, kernels.max_panel_rows, rows_.n_columns,
                   [&](const PanelPlace& panel) {
                     const UnpackedPairDot dot = kernels.unpacked_pair_dot[layout][panel.n];
                     if (dot == nullptr) return;
                     const Ahead ahead = next.share(panel.n, part.end - part.begin);
                     const int32_t* content = x.panels + panel.word;
                     float* out = y + (panel.first - begin) * y_stride;
                     if (panel.first == begin) {
                       return kernels.unpacking_pair_dot[layout](pair, strip_bytes_, part, ahead,
                                                                 content, out, y_stride, scratch);
                     }
                     dot(scratch, part, ahead, content, out, y_stride);
                   });
  }
}

void PreparedWeight::dot_bf16(const Kernels& kernels, uint32_t strip, uint32_t n_strips,
                              const Activations& x, uint32_t first, uint32_t n, float* y,
                              size_t y_stride, uint8_t* scratch) const {
  const uint8_t* panels = x.bf16 + size_t{first} * rows_.n_columns * kernels.bf16_bytes;
  for (uint32_t s = strip; s < strip + n_strips; s += kBf16Strips, y += kBf16Strips * kStripRows) {
    const uint32_t first_row = s * kStripRows;
    const uint32_t end_row =
        std::min(std::min(s + kBf16Strips, strip + n_strips) * kStripRows, rows_.n_rows);
    const Bf16Weights weights =
        form_ == Form::kBf16 ? Bf16Weights::in_strips(strips_.get() + s * strip_bytes_,
                                                      bf16_layout_, rows_.n_columns)
                             : Bf16Weights::in_rows(rows_.row(first_row), rows_.row_stride_bytes);
    kernels.bf16_dot(weights, end_row - first_row, panels, n, rows_.n_columns, y, y_stride,
                     scratch);
  }
}

void PreparedWeight::dot_strip(const Kernels& kernels, uint32_t strip, const Activations& x,
                               uint32_t first, uint32_t n, float* y, size_t y_stride,
                               uint8_t* scratch) const {
  const uint32_t n_strip_rows = rows_of_strip(strip);
  const uint8_t* rows = rows_.row(uint64_t{strip} * kStripRows);
  if (form_ == Form::kBlocks) {
    pack_strip(rows_.dtype, rows, rows_.row_stride_bytes, n_strip_rows, rows_.n_columns, scratch);
    return dot_packed(kernels, {scratch, strip_bytes_, 1}, x, first, n, y, y_stride,
                      scratch + round_up(strip_bytes_, 64));
  }
  const float* floats = x.floats + first * x.float_stride;
  if (form_ == Form::kFloats) {
    kernels.float_dot[static_cast<int>(float_type_)](rows, rows_.row_stride_bytes, n_strip_rows,
                                                     floats, x.float_stride, n, rows_.n_columns, y,
                                                     y_stride);
    return;
  }
  auto* decoded = reinterpret_cast<float*>(scratch);
  const uint64_t n_blocks = rows_.n_columns / dtype_info(rows_.dtype).block_elements;
  for (uint32_t r = 0; r < n_strip_rows; ++r) {
    reference::block_decoder(rows_.dtype)(rows + r * rows_.row_stride_bytes, n_blocks,
                                          decoded + size_t{r} * rows_.n_columns);
  }
  kernels.float_dot[static_cast<int>(FloatType::kF32)](decoded, rows_.n_columns * sizeof(float),
                                                       n_strip_rows, floats, x.float_stride, n,
                                                       rows_.n_columns, y, y_stride);
}

}  // namespace bp::cpu

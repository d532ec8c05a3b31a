#include "backends/cpu/weights/pack_strips.hpp"

#include <array>
#include <cstring>

#include "backends/cpu/weights/pack_words.hpp"
#include "backplane/dtype.hpp"

namespace bp::cpu {

namespace {

using Sources = std::array<const PackSource*, BP_DTYPE_COUNT>;

Sources list_sources() {
  Sources by_dtype{};
  for (const auto sources :
       {simple_pack_sources(), super_block_pack_sources(), code_book_pack_sources()}) {
    for (const PackSource& source : sources) by_dtype[source.dtype] = &source;
  }
  return by_dtype;
}

const PackSource* source_of(bp_dtype dtype) {
  static const Sources sources = list_sources();
  return dtype < BP_DTYPE_COUNT ? sources[dtype] : nullptr;
}

}  // namespace

std::optional<StripLayout> strip_layout_of(bp_dtype dtype) {
  const PackSource* source = source_of(dtype);
  if (source == nullptr) return std::nullopt;
  return source->layout;
}

size_t strip_bytes(StripLayout layout, uint32_t n_columns) {
  const StripShape& shape = kStripShapes[static_cast<int>(layout)];
  const size_t n_records = (n_columns + shape.record_columns - 1) / shape.record_columns;
  const uint32_t n_blocks = shape.record_columns / kPanelColumns;
  return n_records * (shape.header_bytes + n_blocks * shape.body_bytes);
}

void pack_strip(bp_dtype dtype, const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows,
                uint32_t n_columns, uint8_t* strip) {
  const PackSource& source = *source_of(dtype);
  const StripShape& shape = kStripShapes[static_cast<int>(source.layout)];
  if (n_rows < kStripRows || n_columns % shape.record_columns != 0) {
    std::memset(strip, 0, strip_bytes(source.layout, n_columns));
  }
  source.pack(rows, row_stride_bytes, n_rows, n_columns, strip);
}

}  // namespace bp::cpu

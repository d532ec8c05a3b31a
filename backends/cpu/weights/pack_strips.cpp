#include "backends/cpu/weights/pack_strips.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "backplane/dtype.hpp"
#include "backplane/reference/decode.hpp"

namespace bp::cpu {

namespace {

// One row's share of a record: where its block lies in the file and what goes into the strip.
struct RowPacker {
  uint8_t* record;
  uint32_t row;

  void set_f16(uint32_t offset, const uint8_t* value) const {
    std::memcpy(record + offset + 2 * row, value, 2);
  }
  void set_u8(uint32_t offset, uint8_t value) const { record[offset + row] = value; }
};

void put_nibbles(const uint8_t* q, uint32_t row, uint8_t* body) {
  uint8_t both[16];
  for (int i = 0; i < 16; ++i) both[i] = static_cast<uint8_t>((q[i] & 15) | (q[16 + i] << 4));
  for (uint32_t j = 0; j < 4; ++j) std::memcpy(body + 64 * j + 4 * row, both + 4 * j, 4);
}

// Bit 4 of each quant; `bits` starts as zeros.
void put_bits(const uint8_t* q, uint32_t row, uint8_t* bits) {
  for (uint32_t k = 0; k < 8; ++k) {
    uint32_t four = 0;
    for (uint32_t i = 0; i < 4; ++i) four |= (q[4 * k + i] >> 4 & 1u) << i;
    bits[8 * k + row / 2] |= static_cast<uint8_t>(four << (row % 2 * 4));
  }
}

// Bits 4 and 5 of each quant.
void put_pairs(const uint8_t* q, uint32_t row, uint8_t* pairs) {
  for (uint32_t h = 0; h < 2; ++h) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint8_t* own = q + 16 * h + i;
      pairs[64 * h + 4 * row + i] = static_cast<uint8_t>(own[0] >> 4 | (own[4] >> 4) << 2 |
                                                         (own[8] >> 4) << 4 | (own[12] >> 4) << 6);
    }
  }
}

void put_bytes(const uint8_t* q, uint32_t row, uint8_t* body) {
  for (uint32_t k = 0; k < 8; ++k) std::memcpy(body + 64 * k + 4 * row, q + 4 * k, 4);
}

void split_nibbles(const uint8_t* qs, uint8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = qs[i] & 15;
    q[16 + i] = qs[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* qh, uint8_t* q) {
  uint32_t bits;
  std::memcpy(&bits, qh, sizeof bits);
  for (int i = 0; i < 32; ++i) q[i] |= static_cast<uint8_t>((bits >> i & 1) << 4);
}

uint8_t* body_of(StripLayout layout, uint8_t* record, uint32_t b) {
  const StripShape& shape = kStripShapes[static_cast<int>(layout)];
  return record + shape.header_bytes + b * shape.body_bytes;
}

// The source blocks of 32 columns. b is the block's place in its record.

void pack_q4_0(const uint8_t* block, uint32_t b, RowPacker out) {
  out.set_f16(32 * b, block);
  uint8_t q[32];
  split_nibbles(block + 2, q);
  put_nibbles(q, out.row, body_of(StripLayout::kQ4_0, out.record, b));
}

void pack_q4_1(const uint8_t* block, uint32_t b, RowPacker out) {
  out.set_f16(0, block);
  out.set_f16(32, block + 2);
  uint8_t q[32];
  split_nibbles(block + 4, q);
  put_nibbles(q, out.row, body_of(StripLayout::kQ4_1, out.record, b));
}

void pack_q5_0(const uint8_t* block, uint32_t b, RowPacker out) {
  out.set_f16(32 * b, block);
  uint8_t q[32];
  split_nibbles(block + 6, q);
  add_fifth_bits(block + 2, q);
  uint8_t* body = body_of(StripLayout::kQ5_0, out.record, b);
  put_nibbles(q, out.row, body);
  put_bits(q, out.row, body + 256);
}

void pack_q5_1(const uint8_t* block, uint32_t b, RowPacker out) {
  out.set_f16(0, block);
  out.set_f16(32, block + 2);
  uint8_t q[32];
  split_nibbles(block + 8, q);
  add_fifth_bits(block + 4, q);
  uint8_t* body = body_of(StripLayout::kQ5_1, out.record, b);
  put_nibbles(q, out.row, body);
  put_bits(q, out.row, body + 256);
}

void pack_q8_0(const uint8_t* block, uint32_t b, RowPacker out) {
  out.set_f16(32 * b, block);
  put_bytes(block + 2, out.row, body_of(StripLayout::kQ8_0, out.record, b));
}

// The 6-bit scale and minimum of sub-block b, from the 12 bytes of Q4_K and Q5_K.
struct ScaleAndMinimum {
  uint8_t scale, minimum;
};
ScaleAndMinimum scale_and_minimum(const uint8_t* packed, uint32_t b) {
  if (b < 4) {
    return {static_cast<uint8_t>(packed[b] & 63), static_cast<uint8_t>(packed[b + 4] & 63)};
  }
  return {static_cast<uint8_t>((packed[b + 4] & 15) | (packed[b - 4] >> 6) << 4),
          static_cast<uint8_t>(packed[b + 4] >> 4 | (packed[b] >> 6) << 4)};
}

void pack_super_block_header(const uint8_t* block, RowPacker out) {
  out.set_f16(0, block);
  const uint8_t negative[2] = {block[2], static_cast<uint8_t>(block[3] ^ 0x80)};
  out.set_f16(32, negative);
  for (uint32_t b = 0; b < 8; ++b) {
    const ScaleAndMinimum both = scale_and_minimum(block + 4, b);
    out.set_u8(64 + 16 * b, both.scale);
    out.set_u8(192 + 16 * b, both.minimum);
  }
}

// 64 columns share 32 bytes: the first 32 below, the others above.
void split_half(const uint8_t* qs, uint32_t b, uint8_t* q) {
  const uint8_t* own = qs + 32 * (b / 2);
  const uint32_t shift = b % 2 * 4;
  for (int i = 0; i < 32; ++i) q[i] = own[i] >> shift & 15;
}

void pack_q4_k(const uint8_t* block, uint32_t b, RowPacker out) {
  if (b == 0) pack_super_block_header(block, out);
  uint8_t q[32];
  split_half(block + 16, b, q);
  put_nibbles(q, out.row, body_of(StripLayout::kQ4_K, out.record, b));
}

void pack_q5_k(const uint8_t* block, uint32_t b, RowPacker out) {
  if (b == 0) pack_super_block_header(block, out);
  uint8_t q[32];
  split_half(block + 48, b, q);
  for (int i = 0; i < 32; ++i) q[i] |= static_cast<uint8_t>((block[16 + i] >> b & 1) << 4);
  uint8_t* body = body_of(StripLayout::kQ5_K, out.record, b);
  put_nibbles(q, out.row, body);
  put_bits(q, out.row, body + 256);
}

void pack_q6_k(const uint8_t* block, uint32_t b, RowPacker out) {
  if (b == 0) {
    out.set_f16(0, block + 208);
    for (uint32_t i = 0; i < 16; ++i) out.set_u8(64 + 16 * i, block[192 + i]);
  }
  // Halves of 128 columns; in each, quarter k has its low bits in nibbles k/2 of bytes 32(k%2)...
  const uint32_t half = b / 4;
  const uint32_t quarter = b % 4;
  const uint8_t* low = block + 64 * half + 32 * (quarter % 2);
  const uint8_t* high = block + 128 + 32 * half;
  uint8_t q[32];
  for (int i = 0; i < 32; ++i) {
    q[i] = static_cast<uint8_t>((low[i] >> (quarter / 2 * 4) & 15) | (high[i] >> (2 * quarter) & 3)
                                                                         << 4);
  }
  uint8_t* body = body_of(StripLayout::kQ6_K, out.record, b);
  put_nibbles(q, out.row, body);
  put_pairs(q, out.row, body + 256);
}

// The scale of 16 values: the largest that makes all of them multiples of it up to 127, if there is
// one, else a 127th of their largest magnitude.
float scale_of_multiples(const float* values) {
  float largest = 0;
  for (int i = 0; i < 16; ++i) largest = std::max(largest, std::abs(values[i]));
  for (int n = 1; n <= 127; ++n) {
    const float inverse = static_cast<float>(n) / largest;
    const bool fits = std::all_of(values, values + 16, [=](float v) {
      return std::abs(v * inverse - std::nearbyint(v * inverse)) < 1e-3f;
    });
    if (fits) return largest / static_cast<float>(n);
  }
  return largest / 127;
}

// 32 decoded values of one row.
void pack_i8(const float* values, RowPacker out) {
  uint8_t q[32];
  for (uint32_t half = 0; half < 2; ++half) {
    const float* own = values + 16 * half;
    const bool finite = std::all_of(own, own + 16, [](float v) { return std::isfinite(v); });
    const float scale = finite ? scale_of_multiples(own) : NAN;
    std::memcpy(out.record + (16 * half + out.row) * sizeof(float), &scale, sizeof scale);
    for (uint32_t i = 0; i < 16; ++i) {
      const bool is_zero = !(scale > 0);
      q[16 * half + i] =
          static_cast<uint8_t>(is_zero ? 0 : static_cast<int8_t>(std::nearbyint(own[i] / scale)));
    }
  }
  put_bytes(q, out.row, body_of(StripLayout::kI8, out.record, 0));
}

void pack_i8_row(bp_dtype dtype, const uint8_t* blocks, uint32_t n_columns, uint32_t row,
                 uint8_t* strip) {
  const StripShape& shape = kStripShapes[static_cast<int>(StripLayout::kI8)];
  std::vector<float> values(n_columns);
  reference::block_decoder(dtype)(blocks, n_columns / dtype_info(dtype).block_elements,
                                  values.data());
  for (uint32_t column = 0; column < n_columns; column += kPanelColumns) {
    pack_i8(values.data() + column, {strip, row});
    strip += shape.header_bytes + shape.body_bytes;
  }
}

struct Source {
  bp_dtype dtype;
  void (*pack)(const uint8_t* block, uint32_t b, RowPacker out);
};
// In the order of StripLayout.
constexpr Source kSources[kStripLayouts - 1] = {
    {BP_DTYPE_Q4_0, pack_q4_0}, {BP_DTYPE_Q4_1, pack_q4_1}, {BP_DTYPE_Q5_0, pack_q5_0},
    {BP_DTYPE_Q5_1, pack_q5_1}, {BP_DTYPE_Q8_0, pack_q8_0}, {BP_DTYPE_Q4_K, pack_q4_k},
    {BP_DTYPE_Q5_K, pack_q5_k}, {BP_DTYPE_Q6_K, pack_q6_k}};

uint32_t record_bytes(const StripShape& shape) {
  return shape.header_bytes + shape.record_columns / kPanelColumns * shape.body_bytes;
}

}  // namespace

std::optional<StripLayout> strip_layout_of(bp_dtype dtype) {
  for (uint32_t i = 0; i < std::size(kSources); ++i) {
    if (kSources[i].dtype == dtype) return static_cast<StripLayout>(i);
  }
  return std::nullopt;
}

size_t strip_bytes(StripLayout layout, uint32_t n_columns) {
  const StripShape& shape = kStripShapes[static_cast<int>(layout)];
  const size_t n_records = (n_columns + shape.record_columns - 1) / shape.record_columns;
  return n_records * record_bytes(shape);
}

void pack_strip(StripLayout layout, bp_dtype dtype, const uint8_t* rows, size_t row_stride_bytes,
                uint32_t n_rows, uint32_t n_columns, uint8_t* strip) {
  std::memset(strip, 0, strip_bytes(layout, n_columns));
  if (layout == StripLayout::kI8) {
    for (uint32_t row = 0; row < n_rows; ++row) {
      pack_i8_row(dtype, rows + row * row_stride_bytes, n_columns, row, strip);
    }
    return;
  }
  const StripShape& shape = kStripShapes[static_cast<int>(layout)];
  const Source& source = kSources[static_cast<int>(layout)];
  const DtypeInfo& type = dtype_info(dtype);
  for (uint32_t column = 0; column < n_columns; column += shape.record_columns) {
    const uint32_t end = std::min(shape.record_columns, n_columns - column);
    for (uint32_t row = 0; row < n_rows; ++row) {
      const uint8_t* own = rows + row * row_stride_bytes;
      for (uint32_t b = 0; b < end / kPanelColumns; ++b) {
        const uint32_t block = (column + b * kPanelColumns) / type.block_elements;
        source.pack(own + size_t{block} * type.block_bytes, b, {strip, row});
      }
    }
    strip += record_bytes(shape);
  }
}

}  // namespace bp::cpu

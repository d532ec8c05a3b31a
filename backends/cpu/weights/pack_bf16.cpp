#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "backends/cpu/weights/pack_strips.hpp"

namespace bp::cpu {

namespace {

// u16[n_columns / kBf16Columns][kStripRows][kBf16Columns].
void pack_tiles(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows, uint32_t n_columns,
                uint8_t* strip) {
  constexpr size_t kBytes = kBf16Columns * sizeof(uint16_t);
  for (uint32_t c = 0; c < n_columns; c += kBf16Columns, rows += kBytes) {
    for (uint32_t r = 0; r < kStripRows; ++r, strip += kBytes) {
      if (r < n_rows) {
        std::memcpy(strip, rows + r * row_stride_bytes, kBytes);
      } else {
        std::memset(strip, 0, kBytes);
      }
    }
  }
}

using Exceptions = std::vector<Bf16Split::Exception>;

bool comes_before(const Bf16Split::Exception& a, const Bf16Split::Exception& b) {
  return a.block != b.block ? a.block < b.block : a.place < b.place;
}

// The greatest that there is room for, by place.
void put_exceptions(Exceptions& all, uint32_t n_columns, uint8_t* to) {
  const size_t room = Bf16Split::n_exceptions(n_columns);
  if (all.size() > room) {
    const auto magnitude = [](const Bf16Split::Exception& e) { return e.weight & 0x7fff; };
    std::ranges::stable_sort(all, std::ranges::greater(), magnitude);
    all.resize(room);
  }
  std::ranges::sort(all, comes_before);
  all.push_back({Bf16Split::kNoBlock, 0, 0});
  std::memcpy(to, all.data(), all.size() * sizeof(all[0]));
}

constexpr uint32_t kInfinity = 255;  // an exponent; of NaN too

uint32_t exponent_of(uint16_t weight) {
  return weight >> 7 & 0xff;
}

// The greatest exponent of a number.
uint32_t greatest_exponent(std::span<const uint16_t> row) {
  uint32_t greatest = 1;
  for (const uint16_t weight : row) {
    const uint32_t exponent = exponent_of(weight);
    if (exponent != kInfinity) greatest = std::max(greatest, exponent);
  }
  return greatest;
}

// A weight where it stands, in a strip of zeros.
void put(const Bf16Split::Exception& weight, uint8_t* blocks) {
  const uint32_t element = weight.place % (2 * kStripRows), pair = weight.place / (2 * kStripRows);
  uint8_t* const group = blocks + size_t{weight.block} * Bf16Split::kBlockBytes +
                         pair / Bf16Split::kGroupPairs * Bf16Split::kGroupBytes;
  const uint32_t at = Bf16Split::byte_of(pair % Bf16Split::kGroupPairs, element / 2, element % 2);
  const uint32_t nibble = (weight.weight >> 12 & 8) | (weight.weight >> 8 & 7);
  group[at] = static_cast<uint8_t>(weight.weight);
  group[Bf16Split::kNibblesAt + at % 64] |= static_cast<uint8_t>(nibble << (at < 64 ? 0 : 4));
}

// Weights of a strip that may stand apart.
struct Rare {
  Exceptions zeros;  // do if nibbles have no zero; no more than one too many are kept
  Exceptions least;  // do if they have one
  Exceptions others;
};

// Row r of a strip of zeros, but for what is rare.
void split_row(std::span<const uint16_t> row, uint32_t r, uint8_t* strip, Rare& rare) {
  const auto n_columns = static_cast<uint32_t>(row.size());
  const int shift = Bf16Split::kMostExponent - static_cast<int>(greatest_exponent(row));
  const float scale = std::ldexp(1.0f, -shift);
  std::memcpy(strip + r * sizeof scale, &scale, sizeof scale);
  uint8_t* const blocks = strip + Bf16Split::blocks_at(n_columns);
  for (uint32_t c = 0; c < n_columns; ++c) {
    const uint32_t was = exponent_of(row[c]);
    const bool is_number = was != kInfinity;
    const int exponent = static_cast<int>(was) + (is_number ? shift : 0);
    const auto place = static_cast<uint16_t>((c % kBf16Columns / 2 * kStripRows + r) * 2 + c % 2);
    Bf16Split::Exception weight{c / kBf16Columns, place, 0};
    if (was == 0 || exponent <= 0) {  // products take what has no leading bit for 0
      if (rare.zeros.size() <= Bf16Split::n_exceptions(n_columns)) rare.zeros.push_back(weight);
      continue;
    }
    weight.weight = static_cast<uint16_t>((row[c] & 0x807f) | exponent << 7);
    if (!is_number || exponent < Bf16Split::kLeastExponent) {
      rare.others.push_back(weight);
    } else if (exponent < Bf16Split::kLeastBesideZero) {
      rare.least.push_back(weight);
    } else {
      put(weight, blocks);
    }
  }
}

void split(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows, uint32_t n_columns,
           uint8_t* strip) {
  std::memset(strip, 0, Bf16Split::strip_bytes(n_columns));
  Rare rare;
  std::vector<uint16_t> row(n_columns);
  for (uint32_t r = 0; r < n_rows; ++r) {
    std::memcpy(row.data(), rows + r * row_stride_bytes, n_columns * sizeof(uint16_t));
    split_row(row, r, strip, rare);
  }
  const bool has_zero = n_rows < kStripRows || rare.zeros.size() >= rare.least.size() ||
                        rare.zeros.size() + rare.others.size() > Bf16Split::n_exceptions(n_columns);
  for (uint32_t nibble = 0; nibble < 16; ++nibble) {
    strip[Bf16Split::kUpperBytesAt + nibble] = Bf16Split::upper_byte(nibble, has_zero);
  }
  if (!has_zero) {
    for (const auto& weight : rare.least) put(weight, strip + Bf16Split::blocks_at(n_columns));
  }
  Exceptions& apart = has_zero ? rare.least : rare.zeros;
  apart.insert(apart.end(), rare.others.begin(), rare.others.end());
  put_exceptions(apart, n_columns, strip + Bf16Split::kExceptionsAt);
}

}  // namespace

void pack_bf16_strip(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows,
                     uint32_t n_columns, Bf16Layout layout, uint8_t* strip) {
  const auto pack = layout == Bf16Layout::kSplit ? split : pack_tiles;
  pack(rows, row_stride_bytes, n_rows, n_columns, strip);
}

}  // namespace bp::cpu

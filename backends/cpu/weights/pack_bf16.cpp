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

// What its greatest exponent needs to become kMostExponent.
int shift_of(std::span<const uint16_t> row) {
  return static_cast<int>(Bf16Split::kMostExponent) - static_cast<int>(greatest_exponent(row));
}

// Whether products take it for 0: it has no leading bit.
bool is_zero(uint32_t exponent, int shift) {
  return exponent == 0 || static_cast<int>(exponent) + shift <= 0;
}

// Weights of a strip that stand apart.
struct Rare {
  size_t zeros = 0;  // if nibbles have no zero
  size_t least = 0;  // if they have one
  size_t others = 0;

  void count(std::span<const uint16_t> row) {
    const int shift = shift_of(row);
    for (const uint16_t weight : row) {
      const uint32_t was = exponent_of(weight);
      const int exponent = static_cast<int>(was) + shift;
      const bool is_other =
          was == kInfinity || (!is_zero(was, shift) && exponent < least_of(false));
      zeros += is_zero(was, shift) ? 1 : 0;
      others += is_other ? 1 : 0;
      least += !is_other && !is_zero(was, shift) && exponent < least_of(true) ? 1 : 0;
    }
  }
  [[nodiscard]] bool wants_zero(size_t room) const {
    return zeros >= least || zeros + others > room;
  }

  static int least_of(bool has_zero) {
    return static_cast<int>(Bf16Split::least_exponent(has_zero));
  }
};

// Row r of a strip of zeros.
void split_row(std::span<const uint16_t> row, uint32_t r, bool has_zero, uint8_t* strip,
               Exceptions& exceptions) {
  const int shift = shift_of(row);
  const float scale = std::ldexp(1.0f, -shift);
  std::memcpy(strip + r * sizeof scale, &scale, sizeof scale);
  uint8_t* const blocks = strip + Bf16Split::blocks_at(static_cast<uint32_t>(row.size()));
  for (uint32_t c = 0; c < row.size(); ++c) {
    const uint32_t was = exponent_of(row[c]);
    const uint32_t block = c / kBf16Columns, pair = c % kBf16Columns / 2;
    const auto stand_apart = [&](uint16_t weight) {
      const auto place = static_cast<uint16_t>((pair * kStripRows + r) * 2 + c % 2);
      exceptions.push_back({block, place, weight});
    };
    if (is_zero(was, shift)) {
      if (!has_zero) stand_apart(0);
      continue;
    }
    const int exponent = was == kInfinity ? kInfinity : static_cast<int>(was) + shift;
    const auto weight = static_cast<uint16_t>((row[c] & 0x807f) | exponent << 7);
    if (was == kInfinity || exponent < Rare::least_of(has_zero)) {
      stand_apart(weight);
      continue;
    }
    uint8_t* const group = blocks + size_t{block} * Bf16Split::kBlockBytes +
                           pair / Bf16Split::kGroupPairs * Bf16Split::kGroupBytes;
    const uint32_t at = Bf16Split::byte_of(pair % Bf16Split::kGroupPairs, r, c % 2);
    const uint32_t nibble = (weight >> 12 & 8) | (weight >> 8 & 7);
    group[at] = static_cast<uint8_t>(weight);
    group[Bf16Split::kNibblesAt + at % 64] |= static_cast<uint8_t>(nibble << (at < 64 ? 0 : 4));
  }
}

void split(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows, uint32_t n_columns,
           uint8_t* strip) {
  std::memset(strip, 0, Bf16Split::strip_bytes(n_columns));
  std::vector<uint16_t> row(n_columns);
  const auto for_rows = [&](auto&& f) {
    for (uint32_t r = 0; r < n_rows; ++r) {
      std::memcpy(row.data(), rows + r * row_stride_bytes, n_columns * sizeof(uint16_t));
      f(r);
    }
  };
  Rare rare;
  for_rows([&](uint32_t) { rare.count(row); });
  const bool has_zero = n_rows < kStripRows || rare.wants_zero(Bf16Split::n_exceptions(n_columns));
  for (uint32_t nibble = 0; nibble < 16; ++nibble) {
    strip[Bf16Split::kUpperBytesAt + nibble] = Bf16Split::upper_byte(nibble, has_zero);
  }
  Exceptions exceptions;
  for_rows([&](uint32_t r) { split_row(row, r, has_zero, strip, exceptions); });
  put_exceptions(exceptions, n_columns, strip + Bf16Split::kExceptionsAt);
}

}  // namespace

void pack_bf16_strip(const uint8_t* rows, size_t row_stride_bytes, uint32_t n_rows,
                     uint32_t n_columns, Bf16Layout layout, uint8_t* strip) {
  const auto pack = layout == Bf16Layout::kSplit ? split : pack_tiles;
  pack(rows, row_stride_bytes, n_rows, n_columns, strip);
}

}  // namespace bp::cpu

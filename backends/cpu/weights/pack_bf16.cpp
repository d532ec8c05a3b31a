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
  constexpr int16_t kBits = kInfinity << 7;
  int16_t greatest = 1 << 7;
  for (const uint16_t weight : row) {
    const auto bits = static_cast<int16_t>(weight & kBits);
    greatest = std::max(greatest, bits == kBits ? int16_t{0} : bits);
  }
  return static_cast<uint32_t>(greatest) >> 7;
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

// Four weights of a row in one word.
constexpr uint64_t in_each(uint64_t value) {
  return value * 0x0001'0001'0001'0001;
}
constexpr uint64_t kSigns = in_each(0x8000);

// The weights of one row of a strip in the columns of a group, all at once, as nearly all are.
// Where one of them is rare nothing is written, and the answer is false. takes_zeros: those are not
// rare.
class PutGroup {
 public:
  static constexpr uint32_t kColumns = 2 * Bf16Split::kGroupPairs;

  PutGroup(uint32_t greatest, uint32_t r)
      : shift_(in_each((Bf16Split::kMostExponent - greatest) << 7 & 0x7fff)),
        least_(in_each(greatest > kSpan ? greatest - kSpan : kInfinity)),  // or none is that great
        most_(in_each(greatest) | kSigns),
        at_(Bf16Split::byte_of(0, r, 0)) {}

  bool operator()(const uint16_t* weights, bool takes_zeros, uint8_t* group) const {
    static_assert(kColumns == 8);
    uint64_t first, second;
    std::memcpy(&first, weights, sizeof first);
    std::memcpy(&second, weights + 4, sizeof second);
    if (takes_zeros) {
      const uint64_t first_zeros = zeros(first), second_zeros = zeros(second);
      if (((within(first) | first_zeros) & (within(second) | second_zeros)) != kSigns) return false;
      first = shifted(first) & ~whole(first_zeros);
      second = shifted(second) & ~whole(second_zeros);
    } else {
      if ((within(first) & within(second)) != kSigns) return false;
      first = shifted(first);
      second = shifted(second);
    }
    put_pairs(in_bytes(first & in_each(0xff)), group + at_);
    put_pairs(in_bytes(second & in_each(0xff)), group + 64 + at_);
    put_pairs(in_bytes(nibbles(first) | nibbles(second) << 4), group + Bf16Split::kNibblesAt + at_);
    return true;
  }

 private:
  static constexpr uint32_t kSpan = Bf16Split::kMostExponent - Bf16Split::kLeastBesideZero;

  // kSigns where all exponents are between the least and the most.
  [[nodiscard]] uint64_t within(uint64_t weights) const {
    const uint64_t exponents = weights >> 7 & in_each(0xff);
    return ((exponents | kSigns) - least_) & (most_ - exponents) & kSigns;
  }
  // kSigns where an exponent is 0.
  static uint64_t zeros(uint64_t weights) {
    const uint64_t exponents = weights >> 7 & in_each(0xff);
    return ~(exponents + in_each(0x7fff)) & kSigns;
  }
  // All bits where kSigns has one.
  static uint64_t whole(uint64_t signs) { return (signs >> 15) * 0xffff; }
  // Exponents times the row's power of two; carries beyond an exponent meet its sign, which stays.
  [[nodiscard]] uint64_t shifted(uint64_t weights) const {
    return (((weights & ~kSigns) + shift_) & ~kSigns) | (weights & kSigns);
  }
  static uint64_t nibbles(uint64_t weights) {
    return (weights >> 12 & in_each(8)) | (weights >> 8 & in_each(7));
  }
  // Bytes of four words become two of each half.
  static uint64_t in_bytes(uint64_t words) { return words | words >> 8; }
  static void put_pairs(uint64_t bytes, uint8_t* to) {
    std::memcpy(to, &bytes, 2);
    bytes >>= 32;
    std::memcpy(to + 8, &bytes, 2);
  }

  uint64_t shift_, least_, most_;
  uint32_t at_;
};

// One weight of a row of a strip of zeros, put there or among what is rare.
class PutWeight {
 public:
  PutWeight(uint32_t greatest, uint32_t r, uint32_t n_columns, uint8_t* blocks, Rare& rare)
      : shift_(Bf16Split::kMostExponent - static_cast<int>(greatest)),
        r_(r),
        n_columns_(n_columns),
        blocks_(blocks),
        rare_(rare) {}

  // In column c.
  void operator()(uint16_t weight, uint32_t c) const {
    const uint32_t was = exponent_of(weight);
    const bool is_number = was != kInfinity;
    const int exponent = static_cast<int>(was) + (is_number ? shift_ : 0);
    const auto place = static_cast<uint16_t>((c % kBf16Columns / 2 * kStripRows + r_) * 2 + c % 2);
    Bf16Split::Exception item{c / kBf16Columns, place, 0};
    if (was == 0 || exponent <= 0) {  // products take what has no leading bit for 0
      if (rare_.zeros.size() <= Bf16Split::n_exceptions(n_columns_)) rare_.zeros.push_back(item);
      return;
    }
    item.weight = static_cast<uint16_t>((weight & 0x807f) | exponent << 7);
    if (!is_number || exponent < Bf16Split::kLeastExponent) {
      rare_.others.push_back(item);
    } else if (exponent < Bf16Split::kLeastBesideZero) {
      rare_.least.push_back(item);
    } else {
      put(item, blocks_);
    }
  }

 private:
  int shift_;
  uint32_t r_, n_columns_;
  uint8_t* blocks_;
  Rare& rare_;
};

void split_row(std::span<const uint16_t> row, uint32_t r, uint8_t* strip, Rare& rare) {
  const auto n_columns = static_cast<uint32_t>(row.size());
  const uint32_t greatest = greatest_exponent(row);
  const float scale = std::ldexp(1.0f, static_cast<int>(greatest) - Bf16Split::kMostExponent);
  std::memcpy(strip + r * sizeof scale, &scale, sizeof scale);
  uint8_t* group = strip + Bf16Split::blocks_at(n_columns);
  const PutGroup put_group(greatest, r);
  const PutWeight put_weight(greatest, r, n_columns, group, rare);
  for (uint32_t c = 0; c < n_columns; c += PutGroup::kColumns, group += Bf16Split::kGroupBytes) {
    // Of zeros no more are noted than tell that nibbles have one.
    const bool takes_zeros = rare.zeros.size() > Bf16Split::n_exceptions(n_columns);
    if (put_group(&row[c], takes_zeros, group)) continue;
    for (uint32_t i = c; i < c + PutGroup::kColumns; ++i) put_weight(row[i], i);
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

// Kernels over single rows: quantisation, normalisation, element-wise functions.

#include "backends/cpu/kernels/block_scale.inl"
#include "backends/cpu/kernels/kernel_table.hpp"
#include "backends/cpu/kernels/lanes.inl"
#include "backends/cpu/kernels/math.inl"
#include "backends/cpu/kernels/recurrent.inl"
#include "backends/cpu/kernels/unroll.hpp"

namespace bp::cpu::BP_CPU_ISA {
namespace {

// Four sums, since each waits for its last addition.
float sum_of_squared_differences(const float* x, float mean, size_t n) {
  F32x16 totals[4] = {zero(), zero(), zero(), zero()};
  const F32x16 means = broadcast(mean);
  const auto add_square = [&](F32x16 d, F32x16& total) { total = fma(d, d, total); };
  size_t i = 0;
  for (; i + 64 <= n; i += 64) {
    BP_UNROLL for (size_t k = 0; k < 4; ++k) {
      add_square(sub(load(x + i + 16 * k), means), totals[k]);
    }
  }
  for (; i + 16 <= n; i += 16) add_square(sub(load(x + i), means), totals[0]);
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    add_square(where_between(0, rest, sub(load_first(x + i, n - i), means), zero()), totals[1]);
  }
  return reduce_add(add(add(totals[0], totals[1]), add(totals[2], totals[3])));
}

// The blocks that share half sums, in halves, and row t's records of them; null where none is
// wanted.
constexpr uint32_t kGroupHalves = 2 * kHalfSumBlocks;
struct BlockGroup {
  F32x16 halves[kGroupHalves];
  int32_t* records[kHalfSumBlocks];
};

// A value is about quant * scale; the scale of half h is that of the block that it is of.
struct GroupQuants {
  I32x16 quants[kGroupHalves];
  alignas(64) float scale[kGroupHalves];
};

inline GroupQuants quantize(const BlockGroup& group) {
  I32x16 magnitudes[kGroupHalves];
  BP_UNROLL for (uint32_t h = 0; h < kGroupHalves; ++h) {
    magnitudes[h] = magnitude_bits(group.halves[h]);
  }
  const auto greater = [](I32x16 a, I32x16 b) { return max(a, b); };
  const I32x16 of_halves = reduce_each(magnitudes, greater);
  const I32x16 of_blocks = max(of_halves, swap_neighbours(of_halves));
  const BlockScales scales = scales_to(127.0f, float_of_bits(of_blocks));
  alignas(64) float inverse[kGroupHalves];
  store(inverse, scales.inverse);
  GroupQuants out;
  store(out.scale, scales.scale);
  BP_UNROLL for (uint32_t h = 0; h < kGroupHalves; ++h) {
    out.quants[h] = to_int(mul(group.halves[h], broadcast(inverse[h])));
  }
  return out;
}

// Row t's share of a block's quants in a record for n rows.
inline void store_quants(I32x16 low, I32x16 high, int32_t* record, uint32_t n, uint32_t t) {
  if (n == kTileRows || n == 1) {
    auto* bytes = reinterpret_cast<int8_t*>(record + 8 * t);
    store_i8(bytes, low);
    store_i8(bytes + 16, high);
    return;
  }
  int32_t words[8];
  store_i8(reinterpret_cast<int8_t*>(words), low);
  store_i8(reinterpret_cast<int8_t*>(words + 4), high);
  for (uint32_t k = 0; k < 8; ++k) record[k * n + t] = words[k];
}

// Where products begin whose other quants lie 128 above their values.
inline I32x16 starts_of(I32x16 sums) {
  return sub(broadcast_int(kSumStart), shift_left<7>(sums));
}

// Writes row t's share of the records; returns the sums of the halves.
inline F32x16 store_group(const GroupQuants& group, int32_t* const* records, uint32_t n,
                          uint32_t t) {
  const auto sum = [](I32x16 a, I32x16 b) { return add(a, b); };
  const I32x16 halves = reduce_each(group.quants, sum);
  const I32x16 both = add(halves, swap_neighbours(halves));
  const F32x16 scale = load(group.scale);
  alignas(64) float sums[kGroupHalves];
  alignas(64) int32_t starts[kGroupHalves], of_halves[kGroupHalves];
  store(sums, mul(scale, to_float(both)));
  store_ints(starts, starts_of(both));
  store_ints(of_halves, starts_of(halves));
  BP_UNROLL for (uint32_t b = 0; b < kHalfSumBlocks; ++b) {
    int32_t* const record = records[b];
    if (record == nullptr) continue;
    store_quants(group.quants[2 * b], group.quants[2 * b + 1], record, n, t);
    auto* floats = reinterpret_cast<float*>(record);
    floats[8 * n + t] = group.scale[2 * b];
    floats[9 * n + t] = sums[2 * b];
    record[10 * n + t] = starts[2 * b];
    record[11 * n + t] = of_halves[2 * b];
    record[12 * n + t] = of_halves[2 * b + 1];
  }
  return mul(scale, to_float(halves));
}

// Row t's share of the half sums of 256 columns. NaN is left to the records' scales.
inline void store_half_sums(F32x16 sums, int32_t* words, uint32_t n, uint32_t t) {
  const BlockScale units = scale_to(32767.0f, magnitude_bits(sums));
  int16_t q[2 * kHalfSumBlocks];
  store_i16(q, to_int(mul(sums, broadcast(units.inverse))));
  int32_t pairs[kHalfSumBlocks];
  __builtin_memcpy(pairs, q, sizeof pairs);
  for (uint32_t b = 0; b < kHalfSumBlocks; ++b) words[b * n + t] = pairs[b];
  reinterpret_cast<float*>(words)[kHalfSumBlocks * n + t] = units.scale;
}

// The records of a panel and what its header says of them.
struct PanelRecords {
  PanelRecords(int32_t* panel, uint32_t n_blocks, uint32_t n, uint32_t max_seconds)
      : n_seconds(panel),
        second_of(panel + 1),
        half_sums(panel + panel_header_words(n_blocks)),
        firsts(panel + panel_records_word(n_blocks, n)),
        seconds(firsts + size_t{n_blocks} * kPanelWords * n),
        max_seconds(max_seconds),
        n(n) {}

  [[nodiscard]] int32_t* first(uint32_t block) const {
    return firsts + size_t{block} * kPanelWords * n;
  }
  // Begins it where there is none yet; null where there is no room for it.
  [[nodiscard]] int32_t* second(uint32_t block) const {
    const bool begins = second_of[block] < 0;
    if (begins && *n_seconds == static_cast<int32_t>(max_seconds)) return nullptr;
    if (begins) second_of[block] = (*n_seconds)++;
    int32_t* record = seconds + static_cast<size_t>(second_of[block]) * kPanelWords * n;
    if (begins) __builtin_memset(record, 0, sizeof(int32_t) * kPanelWords * n);
    return record;
  }

  int32_t *n_seconds, *second_of, *half_sums, *firsts, *seconds;
  uint32_t max_seconds, n;
};

inline float largest_of_block(const GroupQuants& quants, uint32_t b) {
  return quants.scale[2 * b] * 127.0f;
}

// What rounding left of blocks with a value above `outlier`, in second records. The group's first
// block is `first` of the panel.
__attribute__((noinline)) F32x16 quantize_outliers(BlockGroup& group, const GroupQuants& quants,
                                                   float outlier, const PanelRecords& panel,
                                                   uint32_t first, uint32_t t) {
  for (uint32_t b = 0; b < kHalfSumBlocks; ++b) {
    const bool wanted = group.records[b] != nullptr && largest_of_block(quants, b) > outlier;
    group.records[b] = wanted ? panel.second(first + b) : nullptr;
    for (uint32_t h = 2 * b; h < 2 * b + 2; ++h) {
      const F32x16 rest =
          fma(to_float(quants.quants[h]), broadcast(-quants.scale[h]), group.halves[h]);
      group.halves[h] = group.records[b] != nullptr ? rest : zero();
    }
  }
  return store_group(quantize(group), group.records, panel.n, t);
}

void quantize_row(const float* x, uint32_t n_columns, int32_t* words, uint32_t n, uint32_t t,
                  uint32_t max_seconds) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  const PanelRecords panel(words, n_blocks, n, max_seconds);
  if (t == 0) {
    *panel.n_seconds = 0;
    for (uint32_t b = 0; b < n_blocks; ++b) panel.second_of[b] = -1;
  }
  const float mean_square =
      sum_of_squared_differences(x, 0, n_columns) / static_cast<float>(n_columns);
  // Squares too small for a float would make outliers of all.
  const float outlier = mean_square < __FLT_MIN__
                            ? __builtin_inff()
                            : static_cast<float>(kOutlierRatio) * __builtin_sqrtf(mean_square);
  for (uint32_t first = 0; first < n_blocks; first += kHalfSumBlocks) {
    const uint32_t n_here = n_blocks - first;  // or more than the group holds
    BlockGroup group;
    BP_UNROLL for (uint32_t b = 0; b < kHalfSumBlocks; ++b) {
      const bool exists = b < n_here;
      const float* block = x + size_t{first + b} * kPanelColumns;
      group.halves[2 * b] = exists ? load(block) : zero();
      group.halves[2 * b + 1] = exists ? load(block + 16) : zero();
      group.records[b] = exists ? panel.first(first + b) : nullptr;
    }
    const GroupQuants quants = quantize(group);
    F32x16 half_sums = store_group(quants, group.records, n, t);
    bool has_outlier = false;
    for (uint32_t b = 0; b < kHalfSumBlocks; ++b) {
      has_outlier = has_outlier || largest_of_block(quants, b) > outlier;
    }
    if (has_outlier) {
      half_sums = add(half_sums, quantize_outliers(group, quants, outlier, panel, first, t));
    }
    store_half_sums(half_sums, panel.half_sums + first / kHalfSumBlocks * kHalfSumWords * n, n, t);
  }
}

float sum(const float* x, size_t n) {
  F32x16 total = zero();
  for_lanes(n, [&](size_t i, auto get, auto) { total = add(total, get(x + i)); });
  return reduce_add(total);
}

void affine(const float* x, float mean, float factor, const float* weight, float weight_offset,
            const float* bias, float* y, size_t n) {
  const F32x16 means = broadcast(mean);
  const F32x16 factors = broadcast(factor);
  const F32x16 offsets = broadcast(weight_offset);
  for_lanes(n, [&](size_t i, auto get, auto put) {
    F32x16 v = mul(sub(get(x + i), means), factors);
    if (weight != nullptr) v = mul(v, add(get(weight + i), offsets));
    if (bias != nullptr) v = add(v, get(bias + i));
    put(y + i, v);
  });
}

void add_rows(const float* a, const float* b, float* y, size_t n) {
  for_lanes(n, [&](size_t i, auto get, auto put) { put(y + i, add(get(a + i), get(b + i))); });
}

void multiply_rows(const float* a, const float* b, float* y, size_t n) {
  for_lanes(n, [&](size_t i, auto get, auto put) { put(y + i, mul(get(a + i), get(b + i))); });
}

void multiply_add(const float* x, float factor, const float* addend, float* y, size_t n) {
  const F32x16 f = broadcast(factor);
  for_lanes(n,
            [&](size_t i, auto get, auto put) { put(y + i, fma(get(x + i), f, get(addend + i))); });
}

void scale_row(const float* x, float factor, float* y, size_t n) {
  const F32x16 f = broadcast(factor);
  for_lanes(n, [&](size_t i, auto get, auto put) { put(y + i, mul(get(x + i), f)); });
}

void softcap_row(const float* x, float cap, float* y, size_t n) {
  const F32x16 c = broadcast(cap);
  for_lanes(n, [&](size_t i, auto get, auto put) { put(y + i, mul(c, tanh(div(get(x + i), c)))); });
}

void activate_row(uint32_t activation, const float* x, float* y, size_t n) {
  for_lanes(n,
            [&](size_t i, auto get, auto put) { put(y + i, activated(activation, get(x + i))); });
}

bool all_less(const float* x, float bound, uint32_t n) {
  uint32_t i = 0;
  if (n < 16) {
    while (i < n && x[i] < bound) ++i;
    return i == n;
  }
  const F32x16 bounds = broadcast(bound);
  const auto at = [&](uint32_t begin) { return load(x + (begin < n - 16 ? begin : n - 16)); };
  for (; i < n; i += 64) {
    if (!all_less({at(i), at(i + 16), at(i + 32), at(i + 48)}, bounds)) return false;
  }
  return true;
}

uint32_t find_reaching(const float* x, size_t stride, const float* bounds, uint32_t first,
                       uint32_t n_rows, uint32_t n) {
  uint32_t t = first;
  while (t < n_rows && all_less(x + t * stride, bounds[t], n)) ++t;
  return t;
}

void rotate_halves(const float* cosines, const float* sines, size_t n_pairs, float* x) {
  for_lanes(n_pairs, [&](size_t i, auto get, auto put) {
    const F32x16 u = get(x + i);
    const F32x16 v = get(x + n_pairs + i);
    const F32x16 c = get(cosines + i);
    const F32x16 s = get(sines + i);
    put(x + i, sub(mul(u, c), mul(v, s)));
    put(x + n_pairs + i, add(mul(u, s), mul(v, c)));
  });
}

}  // namespace

void set_row_kernels(Kernels& kernels) {
  kernels.quantize_row = quantize_row;
  kernels.sum = sum;
  kernels.sum_of_squared_differences = sum_of_squared_differences;
  kernels.affine = affine;
  kernels.add = add_rows;
  kernels.multiply = multiply_rows;
  kernels.multiply_add = multiply_add;
  kernels.scale = scale_row;
  kernels.softcap = softcap_row;
  kernels.activate = activate_row;
  kernels.find_reaching = find_reaching;
  kernels.rotate_halves = rotate_halves;
  kernels.dot = dot_rows;
  kernels.convolve = convolve;
  kernels.delta_rule = delta_rule;
}

}  // namespace bp::cpu::BP_CPU_ISA

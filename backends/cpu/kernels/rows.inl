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

// Row t's share of a record; returns the block's largest magnitude. What rounding leaves replaces
// low and high, and the sums of the two are added to half_sums.
inline float quantize_block(F32x16& low, F32x16& high, int32_t* record, uint32_t n, uint32_t t,
                            float* half_sums) {
  const BlockScale block = block_scale(low, high);
  const I32x16 q_low = to_int(mul(low, broadcast(block.inverse)));
  const I32x16 q_high = to_int(mul(high, broadcast(block.inverse)));
  int32_t words[8];
  store_i8(reinterpret_cast<int8_t*>(words), q_low);
  store_i8(reinterpret_cast<int8_t*>(words + 4), q_high);
  if (n == kTileRows) {
    __builtin_memcpy(record + 8 * t, words, sizeof words);
  } else {
    for (uint32_t k = 0; k < 8; ++k) record[k * n + t] = words[k];
  }
  // Unsigned: what stands for a NaN may overflow.
  const auto half = static_cast<uint32_t>(reduce_add(q_low));
  const auto other = static_cast<uint32_t>(reduce_add(q_high));
  const uint32_t sum = half + other;
  half_sums[0] += block.scale * static_cast<float>(static_cast<int32_t>(half));
  half_sums[1] += block.scale * static_cast<float>(static_cast<int32_t>(other));
  auto* floats = reinterpret_cast<float*>(record);
  floats[8 * n + t] = block.scale;
  floats[9 * n + t] = block.scale * static_cast<float>(static_cast<int32_t>(sum));
  record[10 * n + t] = static_cast<int32_t>(sum * static_cast<uint32_t>(-8));
  record[11 * n + t] = static_cast<int32_t>(half * static_cast<uint32_t>(-8));
  low = fma(to_float(q_low), broadcast(-block.scale), low);
  high = fma(to_float(q_high), broadcast(-block.scale), high);
  return block.scale * 127.0f;
}

// Row t's share of the half sums of 256 columns. NaN is left to the records' scales.
inline void store_half_sums(const float* half_sums, int32_t* words, uint32_t n, uint32_t t) {
  const F32x16 sums = load(half_sums);
  const BlockScale units = scale_to(32767.0f, magnitude_bits(sums));
  int16_t q[2 * kHalfSumBlocks];
  store_i16(q, to_int(mul(sums, broadcast(units.inverse))));
  int32_t pairs[kHalfSumBlocks];
  __builtin_memcpy(pairs, q, sizeof pairs);
  for (uint32_t b = 0; b < kHalfSumBlocks; ++b) words[b * n + t] = pairs[b];
  reinterpret_cast<float*>(words)[kHalfSumBlocks * n + t] = units.scale;
}

void quantize_row(const float* x, uint32_t n_columns, int32_t* panel, uint32_t n, uint32_t t,
                  uint32_t max_seconds) {
  const uint32_t n_blocks = n_columns / kPanelColumns;
  int32_t* second_of = panel + 1;
  int32_t* group = panel + panel_header_words(n_blocks);
  int32_t* records = panel + panel_records_word(n_blocks, n);
  int32_t* seconds = records + size_t{n_blocks} * kPanelWords * n;
  if (t == 0) {
    panel[0] = 0;
    for (uint32_t b = 0; b < n_blocks; ++b) second_of[b] = -1;
  }
  const float mean_square =
      sum_of_squared_differences(x, 0, n_columns) / static_cast<float>(n_columns);
  const float outlier = static_cast<float>(kOutlierRatio) * __builtin_sqrtf(mean_square);
  for (uint32_t b = 0; b < n_blocks;) {
    float half_sums[2 * kHalfSumBlocks] = {};
    for (uint32_t i = 0; i < kHalfSumBlocks && b < n_blocks; ++i, ++b) {
      F32x16 low = load(x + b * kPanelColumns);
      F32x16 high = load(x + b * kPanelColumns + 16);
      const float largest = quantize_block(low, high, records, n, t, half_sums + 2 * i);
      records += kPanelWords * n;
      if (!(largest > outlier)) continue;
      if (second_of[b] < 0) {
        if (panel[0] == static_cast<int32_t>(max_seconds)) continue;
        second_of[b] = panel[0]++;
        __builtin_memset(seconds + static_cast<size_t>(second_of[b]) * kPanelWords * n, 0,
                         sizeof(int32_t) * kPanelWords * n);
      }
      quantize_block(low, high, seconds + static_cast<size_t>(second_of[b]) * kPanelWords * n, n, t,
                     half_sums + 2 * i);
    }
    store_half_sums(half_sums, group, n, t);
    group += kHalfSumWords * n;
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
  kernels.rotate_halves = rotate_halves;
  kernels.dot = dot_rows;
  kernels.convolve = convolve;
  kernels.delta_rule = delta_rule;
}

}  // namespace bp::cpu::BP_CPU_ISA

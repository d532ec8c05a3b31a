// The passes of softmax.hpp for vectors of BP_LANES floats. softmax.hpp includes this once for each
// width, inside a namespace and for an instruction set; alone it is empty. Nothing of the standard
// library is called: what the linker keeps of its inline functions may run on any processor.

#ifdef BP_LANES

inline constexpr size_t kLanes = BP_LANES;
using FloatLanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntLanes = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
using WordLanes = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
using HalfLanes = float __attribute__((vector_size(kLanes / 2 * sizeof(float))));
using DoubleLanes = double __attribute__((vector_size(kLanes / 2 * sizeof(double))));

// Rows go by so many values in vectors, whatever the width, so that sums have one order.
inline constexpr size_t kVectors = kPassValues / kLanes;

struct Values {
  FloatLanes of[kVectors];
};
// The first n of them, others are `rest`.
BP_LANES_INLINE Values load_values(const float* from, size_t n, float rest) {
  Values values;
  for (FloatLanes& lanes : values.of) lanes = FloatLanes{} + rest;
  __builtin_memcpy(&values, from, n * sizeof(float));
  return values;
}
BP_LANES_INLINE Values load_values(const float* from) {
  Values values;
  for (size_t i = 0; i < kVectors; ++i) {
    __builtin_memcpy(&values.of[i], from + i * kLanes, sizeof values.of[i]);
  }
  return values;
}

// Coefficients of Cephes' expf.
BP_LANES_INLINE FloatLanes exp_lanes(FloatLanes x) {
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
  constexpr float kLeast = -87.0f;       // e^x is denormal soon after
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const FloatLanes least = FloatLanes{} + kLeast;
  const FloatLanes clamped = x > least ? x : least;
  const FloatLanes shifted = clamped * 1.44269504088896341f + kRound;
  const FloatLanes n = shifted - kRound;
  const FloatLanes r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  FloatLanes p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const FloatLanes e = p * r * r + r + 1.0f;
  const auto power = (FloatLanes)(((IntLanes)shifted + 127) << 23);
  return x < least ? FloatLanes{} : e * power;
}

// 2^x, or 2^least where x is below that, as 2^part, -1/2 <= part <= 1/2,
// and what raises its exponent.
struct Power {
  FloatLanes part;
  IntLanes raise;
};
BP_LANES_INLINE Power power_of_2(FloatLanes x, float least) {
  constexpr float kRound = 12582912.0f;  // as in exp_lanes
  const FloatLanes power = x > least ? x : FloatLanes{} + least;
  const FloatLanes shifted = power + kRound;
  return {power - (shifted - kRound), (IntLanes)shifted << 23};
}

// e^x for x <= 0 within 1e-4 of it, but never below 2^-100: half of exp_lanes' work.
// Coefficients: the best cubic of 2^f, -1/2 <= f <= 1/2, by relative error.
BP_LANES_INLINE FloatLanes estimate_exp_lanes(FloatLanes x) {
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
  const Power power = power_of_2(x * 1.44269504088896341f, -100);
  const FloatLanes f = power.part;
  const FloatLanes p = ((f * 0.0551717f + 0.2426112f) * f + 0.69326099f) * f + 0.99992807f;
  return (FloatLanes)((IntLanes)p + power.raise);
}

// 2^x for x <= 0, relative error below 3e-7, but never below 2^-126: two thirds of exp_lanes' work.
// Coefficients: the best polynomial of 2^f, -1/2 <= f <= 1/2, by relative error.
BP_LANES_INLINE FloatLanes exp2_lanes(FloatLanes x) {
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
  const Power power = power_of_2(x, -126);
  const FloatLanes f = power.part;
  FloatLanes p = f * 0.0013276472f + 0.00967554133f;
  p = p * f + 0.0555071327f;
  p = p * f + 0.240221197f;
  p = p * f + 0.693146967f;
  p = p * f + 1.00000007f;
  return (FloatLanes)((IntLanes)p + power.raise);
}

inline float exp_nonpositive(float x) {
  return exp_lanes(FloatLanes{} + x)[0];
}

struct Sums {
  DoubleLanes of[2 * kVectors] = {};
  BP_LANES_INLINE void add(const Values& values) {
    for (size_t i = 0; i < kVectors; ++i) {
      HalfLanes halves[2];
      __builtin_memcpy(halves, &values.of[i], sizeof halves);
      of[2 * i] += __builtin_convertvector(halves[0], DoubleLanes);
      of[2 * i + 1] += __builtin_convertvector(halves[1], DoubleLanes);
    }
  }
  BP_LANES_INLINE double total() const {
    double all[kPassValues];
    __builtin_memcpy(all, of, sizeof all);
    for (size_t n = kPassValues / 2; n > 0; n /= 2) {
      for (size_t i = 0; i < n; ++i) all[i] += all[n + i];
    }
    return all[0];
  }
};

BP_LANES_INLINE uint64_t or_of(WordLanes lanes) {
  uint64_t pairs[kLanes / 2], all = 0;
  __builtin_memcpy(pairs, &lanes, sizeof pairs);
  for (const uint64_t pair : pairs) all |= pair;
  return all;
}

// How far the passes fetch ahead that are mostly the first to look at a row, which other data may
// have pushed out of the caches; the hardware's own prefetch begins anew with each page.
inline constexpr size_t kAhead = 1024;
inline bool has_nan_or_infinity(const float* row, size_t n) {
  // The sign bit of the differences: magnitude above infinity (NaN); positive and above FLT_MAX.
  WordLanes found[kVectors] = {};
  const auto look = [&](const Values& values) __attribute__((always_inline)) {
    for (size_t i = 0; i < kVectors; ++i) {
      const auto bits = (WordLanes)values.of[i];
      found[i] |= (0x7f800000u - (bits & 0x7fffffffu)) | ((0x7f7fffffu - bits) & ~bits);
    }
  };
  size_t at = 0;
  for (; at + kPassValues <= n; at += kPassValues) {
    __builtin_prefetch(row + at + kAhead);
    look(load_values(row + at));
  }
  if (at < n) look(load_values(row + at, n - at, 0));
  uint64_t any = 0;
  for (const WordLanes& lanes : found) any |= or_of(lanes);
  return (any & 0x8000000080000000u) != 0;
}

inline float max_of(const float* row, size_t n) {
  constexpr float kMinusInfinity = -__builtin_inff();
  Values most[2];
  for (Values& values : most) values = load_values(row, 0, kMinusInfinity);
  const auto take = [](Values & best, const Values& values) __attribute__((always_inline)) {
    for (size_t i = 0; i < kVectors; ++i) {
      best.of[i] = values.of[i] > best.of[i] ? values.of[i] : best.of[i];
    }
  };
  size_t at = 0;
  for (; at + 2 * kPassValues <= n; at += 2 * kPassValues) {
    take(most[0], load_values(row + at));
    take(most[1], load_values(row + at + kPassValues));
  }
  for (; at < n; at += kPassValues) {
    const size_t left = n - at;
    take(most[0], load_values(row + at, left < kPassValues ? left : kPassValues, kMinusInfinity));
  }
  take(most[0], most[1]);
  float all[kPassValues], max = kMinusInfinity;
  __builtin_memcpy(all, most, sizeof all);
  for (const float x : all) max = x > max ? x : max;
  return max;
}

BP_LANES_INLINE Values exp_values(Values values, float max, float scale = 1) {
  for (FloatLanes& lanes : values.of) lanes = exp_lanes((lanes - max) * scale);
  return values;
}

inline void exp_row(const float* row, size_t n, float max, float scale, float* out) {
  for (size_t at = 0; at < n; at += kPassValues) {
    const size_t left = n - at;
    if (left >= kPassValues) {
      const Values values = exp_values(load_values(row + at), max, scale);
      for (size_t i = 0; i < kVectors; ++i) {
        __builtin_memcpy(out + at + i * kLanes, &values.of[i], sizeof values.of[i]);
      }
    } else {
      const Values values = exp_values(load_values(row + at, left, max), max, scale);
      __builtin_memcpy(out + at, &values, left * sizeof(float));
    }
  }
}

inline double sum_of(const float* row, size_t n) {
  Sums sums;
  size_t at = 0;
  for (; at + kPassValues <= n; at += kPassValues) sums.add(load_values(row + at));
  if (at < n) sums.add(load_values(row + at, n - at, 0));
  return sums.total();
}

// Values whose sums are floats before they become doubles.
inline constexpr size_t kChunk = 64 * kPassValues;

BP_LANES_INLINE Values add(Values a, const Values& b) {
  for (size_t i = 0; i < kVectors; ++i) a.of[i] += b.of[i];
  return a;
}

// Two weights are added before they become doubles, which takes longest.
inline double sum_exp(const float* row, size_t n, float max) {
  Sums sums;
  size_t at = 0;
  for (; at + 2 * kPassValues <= n; at += 2 * kPassValues) {
    const Values first = exp_values(load_values(row + at), max);
    sums.add(add(first, exp_values(load_values(row + at + kPassValues), max)));
  }
  if (at + kPassValues <= n) {
    sums.add(exp_values(load_values(row + at), max));
    at += kPassValues;
  }
  if (at < n) sums.add(exp_values(load_values(row + at, n - at, -__builtin_inff()), max));
  return sums.total();
}

inline size_t estimate_until(const float* row, size_t n, float max, float least, double* sums) {
  Sums totals;
  __builtin_memcpy(totals.of, sums, sizeof totals.of);
  size_t at = 0, found = n;
  while (at < n && found == n) {
    const size_t end = n - at > kChunk ? at + kChunk : n;
    Values chunk = {};
    for (; at < end && found == n; at += kSkipBlock) {
      IntLanes reached = {};
      const auto take = [&](const Values& values) __attribute__((always_inline)) {
        for (size_t i = 0; i < kVectors; ++i) {
          const IntLanes is_below = values.of[i] < least;
          const FloatLanes weight = estimate_exp_lanes(values.of[i] - max);
          chunk.of[i] += is_below ? weight : FloatLanes{};
          reached |= ~is_below;
        }
      };
      if (n - at >= kSkipBlock) {
        for (size_t i = at; i < at + kSkipBlock; i += kPassValues) {
          __builtin_prefetch(row + i + kAhead);
          take(load_values(row + i));
        }
      } else {
        for (size_t i = at; i < n; i += kPassValues) {
          take(load_values(row + i, n - i < kPassValues ? n - i : kPassValues, -__builtin_inff()));
        }
      }
      if (or_of((WordLanes)reached) != 0) found = at;
    }
    totals.add(chunk);
  }
  __builtin_memcpy(sums, totals.of, sizeof totals.of);
  return found;
}

inline void sums_from(const float* values, size_t n, const float* least, double* sums) {
  Sums totals[kThresholds];
  FloatLanes thresholds[kThresholds];
  for (size_t t = 0; t < kThresholds; ++t) thresholds[t] = FloatLanes{} + least[t];
  for (size_t at = 0; at < n;) {
    const size_t end = n - at > kChunk ? at + kChunk : n;
    Values chunk[kThresholds] = {};
    const auto take = [&](const Values& some) __attribute__((always_inline)) {
      for (size_t t = 0; t < kThresholds; ++t) {
        for (size_t i = 0; i < kVectors; ++i) {
          chunk[t].of[i] += some.of[i] >= thresholds[t] ? some.of[i] : FloatLanes{};
        }
      }
    };
    for (; at + kPassValues <= end; at += kPassValues) take(load_values(values + at));
    if (at < end) take(load_values(values + at, end - at, 0));
    at = end;
    for (size_t t = 0; t < kThresholds; ++t) totals[t].add(chunk[t]);
  }
  for (size_t t = 0; t < kThresholds; ++t) sums[t] = totals[t].total();
}

BP_LANES_INLINE double total_of(const Values& chunk) {
  Sums sums;
  sums.add(chunk);
  return sums.total();
}

inline void sums_of_draw(const float* row, size_t n, float max, float least, float scale,
                         double* sums) {
  constexpr float kMost = __FLT_MAX__;
  const float wanted = scale * 1.44269504088896341f;
  const float power = wanted < kMost ? wanted : kMost;
  for (size_t at = 0; at < n; ++sums) {
    const size_t end = n - at > kDrawBlock ? at + kDrawBlock : n;
    Values chunk = {};
    const auto take = [&](const Values& values) __attribute__((always_inline)) {
      for (size_t i = 0; i < kVectors; ++i) {
        const FloatLanes weight = exp2_lanes((values.of[i] - max) * power);
        chunk.of[i] += values.of[i] >= least ? weight : FloatLanes{};
      }
    };
    for (; at + kPassValues <= end; at += kPassValues) {
      __builtin_prefetch(row + at + kAhead);
      take(load_values(row + at));
    }
    if (at < end) take(load_values(row + at, end - at, -__builtin_inff()));
    at = end;
    *sums = total_of(chunk);
  }
}

inline void estimate_below(const float* row, size_t n, float max, float logit, double enough,
                           double* sums) {
  Sums totals[2];
  sums[1] = 0;
  for (size_t at = 0; at < n && sums[1] <= enough;) {
    const size_t end = n - at > kChunk ? at + kChunk : n;
    Values all = {}, below = {};
    const auto take = [&](const Values& values) __attribute__((always_inline)) {
      for (size_t i = 0; i < kVectors; ++i) {
        const FloatLanes weight = estimate_exp_lanes(values.of[i] - max);
        all.of[i] += weight;
        below.of[i] += values.of[i] < logit ? weight : FloatLanes{};
      }
    };
    for (; at + kPassValues <= end; at += kPassValues) take(load_values(row + at));
    if (at < end) take(load_values(row + at, end - at, -__builtin_inff()));
    at = end;
    totals[0].add(all);
    totals[1].add(below);
    sums[1] = totals[1].total();
  }
  sums[0] = totals[0].total();
}

inline size_t skip_outside(const float* row, size_t n, float least, float bound) {
  size_t at = 0;
  for (; at + kSkipBlock <= n; at += kSkipBlock) {
    IntLanes reached = {};
    for (size_t i = 0; i < kSkipBlock; i += kPassValues) {
      __builtin_prefetch(row + at + i + kAhead);
      for (const FloatLanes& lanes : load_values(row + at + i).of) {
        reached |= (lanes >= least) & (lanes < bound);
      }
    }
    if (or_of((WordLanes)reached) != 0) break;
  }
  return at;
}

// marks[i]: 255 where the value is at least `least`, else 0; of kSkipBlock values.
inline void mark_from(const float* row, float least, uint8_t* marks) {
  using ByteLanes = int8_t __attribute__((vector_size(kLanes)));
  for (size_t i = 0; i < kSkipBlock; i += kLanes) {
    FloatLanes lanes;
    __builtin_memcpy(&lanes, row + i, sizeof lanes);
    const auto bytes = __builtin_convertvector((IntLanes)(lanes >= least), ByteLanes);
    __builtin_memcpy(marks + i, &bytes, sizeof bytes);
  }
}

inline constexpr RowPasses kPasses = {
    kLanes,         has_nan_or_infinity, max_of,       exp_row,        sum_of,      sum_exp,
    estimate_until, sums_from,           sums_of_draw, estimate_below, skip_outside,
    mark_from,
};

#endif  // BP_LANES

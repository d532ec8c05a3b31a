#include "core/cli/probe_kernels.hpp"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Before a loop of constant length: its array of accumulators becomes registers.
#if defined(__clang__)
#define BP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BP_UNROLL _Pragma("GCC unroll 16")
#endif

namespace bp::cli {

namespace {

constexpr int kReads = 8;  // loads in flight
// Chains: more than latency times throughput, fewer than registers.
constexpr int kWideChains = 12;
constexpr int kNarrowChains = 10;

uint64_t sum_of_words(const void* bytes, size_t n_bytes) {
  uint64_t total = 0;
  for (size_t i = 0; i < n_bytes; i += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, static_cast<const std::byte*>(bytes) + i, sizeof(word));
    total += word;
  }
  return total;
}

uint64_t read_scalar(const std::byte* bytes, uint64_t n) {
  uint64_t sums[kReads] = {};
  for (uint64_t i = 0; i < n; i += sizeof(sums)) {
    uint64_t words[kReads];
    std::memcpy(words, bytes + i, sizeof(words));
    BP_UNROLL
    for (int j = 0; j < kReads; ++j) sums[j] += words[j];
  }
  return sum_of_words(sums, sizeof(sums));
}

constexpr int kScalarWidth = 64;

uint64_t dot_scalar(uint64_t n_rounds, uint32_t seed) {
  int8_t a[kScalarWidth];
  int8_t b[kScalarWidth];
  std::memset(a, static_cast<int>(seed % 7 + 1), sizeof(a));
  std::memset(b, static_cast<int>(seed % 5 + 1), sizeof(b));
  int32_t sum = 0;
  for (uint64_t i = 0; i < n_rounds; ++i) {
    a[i % kScalarWidth] = static_cast<int8_t>(i & 3);
    for (int j = 0; j < kScalarWidth; ++j) sum += a[j] * b[j];
    sum &= 0xffff;
  }
  return static_cast<uint64_t>(sum);
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) uint64_t read_avx2(const std::byte* bytes, uint64_t n) {
  __m256i sums[kReads];
  BP_UNROLL
  for (int j = 0; j < kReads; ++j) sums[j] = _mm256_setzero_si256();
  const auto* vectors = reinterpret_cast<const __m256i*>(bytes);
  for (uint64_t i = 0; i < n / sizeof(__m256i); i += kReads) {
    BP_UNROLL
    for (int j = 0; j < kReads; ++j) {
      sums[j] = _mm256_add_epi64(sums[j], _mm256_load_si256(vectors + i + j));
    }
  }
  BP_UNROLL
  for (int j = 1; j < kReads; ++j) sums[0] = _mm256_add_epi64(sums[0], sums[j]);
  return sum_of_words(&sums[0], sizeof(sums[0]));
}

__attribute__((target("avx512f"))) uint64_t read_avx512(const std::byte* bytes, uint64_t n) {
  __m512i sums[kReads];
  BP_UNROLL
  for (int j = 0; j < kReads; ++j) sums[j] = _mm512_setzero_si512();
  const auto* vectors = reinterpret_cast<const __m512i*>(bytes);
  for (uint64_t i = 0; i < n / sizeof(__m512i); i += kReads) {
    BP_UNROLL
    for (int j = 0; j < kReads; ++j) {
      sums[j] = _mm512_add_epi64(sums[j], _mm512_load_si512(vectors + i + j));
    }
  }
  BP_UNROLL
  for (int j = 1; j < kReads; ++j) sums[0] = _mm512_add_epi64(sums[0], sums[j]);
  return sum_of_words(&sums[0], sizeof(sums[0]));
}

// What AVX2 kernels do: u8 x i8 to pairs in i16, pairs to i32, added up.
__attribute__((target("avx2"))) uint64_t dot_avx2(uint64_t n_rounds, uint32_t seed) {
  const __m256i a = _mm256_set1_epi8(static_cast<char>(seed % 7 + 1));
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[kNarrowChains];
  BP_UNROLL
  for (int j = 0; j < kNarrowChains; ++j) sums[j] = _mm256_set1_epi32(j);
  for (uint64_t i = 0; i < n_rounds; ++i) {
    BP_UNROLL
    for (int j = 0; j < kNarrowChains; ++j) {
      // An operand that changes, or the products would be taken out of the loop.
      const __m256i pairs = _mm256_maddubs_epi16(a, sums[j]);
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(pairs, ones));
    }
  }
  BP_UNROLL
  for (int j = 1; j < kNarrowChains; ++j) sums[0] = _mm256_add_epi32(sums[0], sums[j]);
  return sum_of_words(&sums[0], sizeof(sums[0]));
}

__attribute__((target("avx512f,avx512vnni"))) uint64_t dot_avx512_vnni(uint64_t n_rounds,
                                                                       uint32_t seed) {
  const __m512i a = _mm512_set1_epi32(static_cast<int>(0x01010101 * (seed % 7 + 1)));
  const __m512i b = _mm512_set1_epi32(static_cast<int>(0x01020304 * (seed % 5 + 1)));
  __m512i sums[kWideChains];
  BP_UNROLL
  for (int j = 0; j < kWideChains; ++j) sums[j] = _mm512_set1_epi32(j);
  for (uint64_t i = 0; i < n_rounds; ++i) {
    BP_UNROLL
    for (int j = 0; j < kWideChains; ++j) sums[j] = _mm512_dpbusd_epi32(sums[j], a, b);
  }
  BP_UNROLL
  for (int j = 1; j < kWideChains; ++j) sums[0] = _mm512_add_epi32(sums[0], sums[j]);
  return sum_of_words(&sums[0], sizeof(sums[0]));
}

#endif

}  // namespace

ProbeKernels choose_probe_kernels() {
  ProbeKernels chosen{read_scalar, {dot_scalar, 2 * kScalarWidth}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    chosen.read = read_avx2;
    chosen.dot = {dot_avx2, 2 * sizeof(__m256i) * kNarrowChains};
  }
  if (__builtin_cpu_supports("avx512f")) chosen.read = read_avx512;
  if (__builtin_cpu_supports("avx512vnni")) {
    chosen.dot = {dot_avx512_vnni, 2 * sizeof(__m512i) * kWideChains};
  }
#endif
  return chosen;
}

}  // namespace bp::cli

#pragma once

namespace bp::cpu::BP_CPU_ISA {
namespace {

constexpr int32_t kInfinityBits = 0x7f800000;  // of a float

// f(offset, load, store) for each 16 columns; the last ones partial.
template <class F>
inline void for_lanes(size_t n, F&& f) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    f(
        i, [](const float* p) { return load(p); }, [](float* p, F32x16 x) { store(p, x); });
  }
  if (const size_t rest = n - i; rest > 0) {
    f(
        i, [=](const float* p) { return load_first(p, rest); },
        [=](float* p, F32x16 x) { store_first(p, x, rest); });
  }
}

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA

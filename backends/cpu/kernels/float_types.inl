// float32, float16 and bfloat16 in memory, as float32 lanes.
#pragma once

namespace bp::cpu::BP_CPU_ISA {
namespace {

struct F32 {
  using Element = float;
  static constexpr uint32_t kBytes = sizeof(Element);
  static const float* at(const void* p) { return static_cast<const float*>(p); }
  static F32x16 load(const float* p) { return BP_CPU_ISA::load(p); }
  static void store(float* p, F32x16 x) { BP_CPU_ISA::store(p, x); }
};

struct F16 {
  using Element = uint16_t;
  static constexpr uint32_t kBytes = sizeof(Element);
  static const uint16_t* at(const void* p) { return static_cast<const uint16_t*>(p); }
  static F32x16 load(const uint16_t* p) { return load_f16(p); }
  static void store(uint16_t* p, F32x16 x) { store_f16(p, x); }
};

struct BF16 {
  using Element = uint16_t;
  static constexpr uint32_t kBytes = sizeof(Element);
  static const uint16_t* at(const void* p) { return static_cast<const uint16_t*>(p); }
  static F32x16 load(const uint16_t* p) { return load_bf16(p); }
  static void store(uint16_t* p, F32x16 x) { store_bf16(p, x); }
};

}  // namespace
}  // namespace bp::cpu::BP_CPU_ISA

#pragma once
// Instructions that the CUDA language has no name for, and the narrow float types. Each has a body
// in plain C++ for the emulator, with the registers of each lane as the PTX ISA lays them out.

#include "backends/cuda/kernels/simt.cuh"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#else
#include "backplane/half.hpp"
#endif

namespace bp::cuda {

#if defined(__CUDACC__)

__device__ __forceinline__ float f16_value(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}
__device__ __forceinline__ uint16_t f16_bits(float x) {
  return __half_as_ushort(__float2half_rn(x));
}
__device__ __forceinline__ float bf16_value(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
__device__ __forceinline__ uint16_t bf16_bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ float e4m3_value(uint8_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
}
__device__ __forceinline__ float e5m2_value(uint8_t bits) {
  return f16_value(static_cast<uint16_t>(bits << 8));
}
// Values beyond 448 become 448.
__device__ __forceinline__ uint8_t e4m3_bits(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

#else

inline float f16_value(uint16_t bits) {
  return f16_to_f32(bits);
}
inline uint16_t f16_bits(float x) {
  return f32_to_f16(x);
}
inline float bf16_value(uint16_t bits) {
  return bf16_to_f32(bits);
}
inline uint16_t bf16_bits(float x) {
  return f32_to_bf16(x);
}
inline float e4m3_value(uint8_t bits) {
  return f8_e4m3_to_f32(bits);
}
inline float e5m2_value(uint8_t bits) {
  return f8_e5m2_to_f32(bits);
}
inline uint8_t e4m3_bits(float x) {
  return f32_to_f8_e4m3(x);
}

#endif

// 2^x to 22 bits; what would be denormal is 0.
__device__ __forceinline__ float exp2_fast(float x) {
#if defined(__CUDACC__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// 16 bytes that are read once: they do not displace what is read again.
__device__ __forceinline__ uint4 stream_16(const uint8_t* at) {
#if defined(__CUDACC__)
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(at));
  return x;
#else
  return *reinterpret_cast<const uint4*>(at);
#endif
}

// Two 8-bit floats of a register's low half, the first in its low byte.
__device__ __forceinline__ float2 e4m3_pair(uint32_t bits) {
#if defined(__CUDACC__)
  const auto pair = static_cast<__nv_fp8x2_storage_t>(bits);
  return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3)));
#else
  return {e4m3_value(static_cast<uint8_t>(bits)), e4m3_value(static_cast<uint8_t>(bits >> 8))};
#endif
}
__device__ __forceinline__ float2 e5m2_pair(uint32_t bits) {
  return {e5m2_value(static_cast<uint8_t>(bits)), e5m2_value(static_cast<uint8_t>(bits >> 8))};
}

// Two narrow floats of a register, the first in its low half.
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  return static_cast<uint32_t>(f16_bits(low)) | static_cast<uint32_t>(f16_bits(high)) << 16;
}
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(bf16_bits(low)) | static_cast<uint32_t>(bf16_bits(high)) << 16;
}

// 2^(bits - 127), the scale of mxfp4.
__device__ __forceinline__ float e8m0_value(uint8_t bits) {
  return __uint_as_float(bits == 0     ? 0x00400000u
                         : bits == 255 ? 0x7fffffffu
                                       : static_cast<uint32_t>(bits) << 23);
}

// ---- matrix products of a warp ------------------------------------------------------------------
//
// c[16][8] += a[16][k] * b[k][8]. With group = lane / 4 and member = lane % 4, and pairs (16 bits)
// or quads (8 bits) of neighbouring k in a register, the lower one first:
//   c: 0, 1 are row group, columns 2 * member + {0, 1}; 2, 3 the same of row group + 8.
//   a: registers 0 and 1 are rows group and group + 8 of the lower half of k, 2 and 3 of the upper
//      half; within a half, member is the pair or quad.
//   b: register 0 is column group of the lower half of k, 1 of the upper half, by member likewise.

#if defined(__CUDACC__)

// k = 16
__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// k = 16
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// k = 32; c is the sum and `start`.
__device__ __forceinline__ void mma_s8_32(int32_t (&c)[4], const uint32_t (&a)[4],
                                          const uint32_t (&b)[2], uint32_t start) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start));
}
// k = 16: the lower half of the one above.
__device__ __forceinline__ void mma_s8_16(int32_t (&c)[4], const uint32_t (&a)[2], uint32_t b,
                                          uint32_t start) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%7,%7,%7,%7};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(start));
}

#else

void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void mma_s8_32(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t start);
void mma_s8_16(int32_t (&c)[4], const uint32_t (&a)[2], uint32_t b, uint32_t start);

#endif

// c += a * b of either 16-bit type, k = 16.
template <bool kIsF16>
__device__ __forceinline__ void multiply_halves(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                uint32_t b1) {
  const uint32_t b[2] = {b0, b1};
  if constexpr (kIsF16) {
    mma_f16(c, a, b);
  } else {
    mma_bf16(c, a, b);
  }
}

// ---- copies into shared memory
// --------------------------------------------------------------------

#if defined(__CUDACC__)

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Four 8x8 matrices of 16-bit elements: lane 8 * i + r gives the address of row r (16 bytes) of
// matrix i, and gets in register i the elements 2 * (lane % 4) + {0, 1} of row lane / 4.
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row)));
}
// The same of the transposed matrices.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&m)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row)));
}

// 16 bytes from device to shared memory, both aligned to 16, done when a wait says so. Of n_bytes <
// 16 the rest becomes zeros.
__device__ __forceinline__ void copy_async(void* shared, const void* global,
                                           uint32_t n_bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(n_bytes));
}
__device__ __forceinline__ void close_copies() {
  asm volatile("cp.async.commit_group;");
}
// Waits for this thread's closed groups but the latest kPending; barriers tell the other threads.
template <uint32_t kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

#else

void load_matrices(uint32_t (&m)[4], const void* row);
void load_matrices_transposed(uint32_t (&m)[4], const void* row);
void copy_async(void* shared, const void* global, uint32_t n_bytes = 16);
void close_copies();
void wait_for_copies_but(uint32_t n_pending);
template <uint32_t kPending>
void wait_for_copies() {
  wait_for_copies_but(kPending);
}

#endif

}  // namespace bp::cuda

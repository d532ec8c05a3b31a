#pragma once
// From the rows that qkv's products made to what attention reads, in one launch: norms of each
// head's query and key, the rotation of both, keys and values to the cache. Each value is the same
// to the last bit by norm.hpp, rotate.hpp and kv.hpp one after another.

#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/kernels/norm.hpp"
#include "backends/cuda/kernels/rotate.hpp"

namespace bp::cuda {

inline constexpr uint32_t kHeadsWarps = 8;
inline constexpr uint32_t kMaxHeadsDim = 512;  // of queries and keys, in shared memory

struct HeadsParams {
  Rows q, k, v;
  Rows to_q;  // may be q
  KvPlane to_k, to_v;
  const StepView* step = nullptr;
  const float* q_norm = nullptr;  // [head_dim], or null
  const float* k_norm = nullptr;
  float eps = 0;
  float weight_offset = 0;
  uint32_t subtracts_mean = 0;
  Rotation rotation;  // n_dims 0: none
  uint32_t group = 0;
  uint32_t n_rows = 0;
  uint32_t n_heads = 0;
};

// A warp for each head of a token; for many tokens, a block has all heads of one, whose angles it
// finds once. The angles, and a head for each warp, are in shared memory.
[[nodiscard]] inline Geometry heads_geometry(const HeadsParams& p) {
  constexpr uint32_t kManyRows = 128;
  const uint32_t n_blocks = divide_up(p.n_heads + 2 * p.to_k.n_heads, kHeadsWarps);
  const uint32_t n_floats = p.rotation.n_dims + kHeadsWarps * p.to_k.head_dim;
  return {{p.n_rows, p.n_rows < kManyRows ? n_blocks : 1, 1}, kHeadsWarps * 32, n_floats * 4};
}
[[nodiscard]] Kernel<HeadsParams> heads_kernel();

}  // namespace bp::cuda

#pragma once
// What several ops are made of.

#include <cstdint>

#include "backplane/reference/op_call.hpp"

namespace bp::reference {

// BP_ACT_* of one value.
[[nodiscard]] double activate(uint32_t activation, double x);

// y[t][o] = x[t] . w[first_row + o] + bias[o] for o in [0, y.width), w being the weight of a slot;
// bias may be null. Each row of w is decoded once. `place` says which product of the op this is.
void project(const OpCall& call, Place place, const Matrix& x, uint32_t slot, uint64_t first_row,
             const float* bias, const Matrix& y);

// Each group of columns normalised (BP_NORM_*), without weights; 0: the whole row. x and y may be
// the same.
void normalize(const Matrix& x, uint32_t kind, double eps, uint32_t group, const Matrix& y);

// normalize, then scale_and_shift, as the place of an op. x and y may be the same.
void norm(const OpCall& call, Place place, const Matrix& x, const bp_attr_norm& attributes,
          const WeightRows* weight, const WeightRows* bias, const Matrix& y);

// x = activation(x), as the place of an op.
void activate_all(const OpCall& call, uint32_t activation, const Matrix& x);

// A place's kernel on all workers; x and y share no memory.
void run_kernel(const BoundKernel& kernel, const Workers& workers, const Matrix& x,
                const Matrix& y);

// y = x * (weight + offset) + bias; weight [n_weight] and bias [n_bias] repeat along the row and
// may be null. x and y may be the same.
void scale_and_shift(const Matrix& x, const WeightRows* weight, double offset,
                     const WeightRows* bias, const Matrix& y);

struct Rotation {
  uint32_t pairing;  // BP_ROPE_*
  uint32_t n_heads, head_dim, n_dims;
  double magnitude;
};
// positions [x.n_rows], inv_freq [n_dims/2].
void rotate(const Rotation& rotation, const Matrix& x, const int32_t* positions,
            const float* inv_freq, const Matrix& y);

// y[t] = table[id of t] * scale. An id outside the table fails its sequence.
void embed(const OpCall& call, double scale);

// Stores k and v of every token of a running sequence at its position.
void kv_write(const OpCall& call, uint32_t kv_slot, const Matrix& k, const Matrix& v);

// Attention of q over the KV slot; sinks and slopes may be null.
void attend(const OpCall& call, const bp_attr_attention& attributes, const float* sinks,
            const float* slopes);

// ids and shares [n_used] of one row of logits [n_experts]; bias may be null.
void route_row(const bp_attr_route& attributes, const float* logits, const float* bias,
               uint32_t n_experts, float* ids, float* shares);

// Group g of a row of y is matrix ids[g] of w, or g where ids is null, times the row's group of x,
// or times the whole row where x has one group. bias [n_matrices, n_out] may be null.
void group_matmul(const OpCall& call, const Matrix& x, const Matrix* ids, uint32_t n_groups,
                  const WeightRows& w, const WeightRows* bias, const Matrix& y);

// y[t] = sum over groups of shares[t][g] * group g of x[t].
void group_sum(const Matrix& x, const Matrix& shares, const Matrix& y);

[[nodiscard]] double soft_cap(double cap, double x);

}  // namespace bp::reference

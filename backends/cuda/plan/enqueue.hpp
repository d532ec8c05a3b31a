#pragma once
// Stages that several ops are made of, over buffers and weights of the planner.

#include <span>

#include "backends/cuda/kernels/activation.hpp"
#include "backends/cuda/kernels/elementwise.hpp"
#include "backends/cuda/kernels/product.hpp"
#include "backends/cuda/kernels/rotate.hpp"
#include "backends/cuda/plan/planner.hpp"
#include "backends/cuda/plan/product_path.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

struct NormSpec {
  uint32_t x = kNoBuffer, residual = kNoBuffer, y = kNoBuffer, sum = kNoBuffer;
  const DeviceWeight* weight = nullptr;
  const DeviceWeight* bias = nullptr;
  uint32_t kind = 0;  // BP_NORM_*
  float eps = 0;
  float weight_offset = 0;
  uint32_t group = 0;  // 0: the whole row
};
void add_norm(Planner& planner, const NormSpec& spec);

[[nodiscard]] Rotation rotation_of(const bp_attr_rope& rope, const DeviceWeight& inv_freq);

// The rows of a buffer in the form that products of a weight take for a number of rows.
struct Prepared {
  uint32_t buffer = kNoBuffer;  // none where the products take floats
  bp_dtype dtype = BP_DTYPE_NONE;
  uint32_t n_in = 0;
};
// Of y, made by the op that makes y, for the product that reads it; nothing where none does.
[[nodiscard]] Prepared prepare_for_consumer(Planner& planner, uint32_t y);
[[nodiscard]] XForm form_of(const Prepared& prepared, uint32_t n_rows, const DeviceInfo& device);

// x is first combined with another buffer, in place where its floats are needed at all.
struct GateSpec {
  ElementwiseParams params;
  uint32_t b = kNoBuffer;
  // Of the products that make x and b, where they combine them themselves for few rows.
  ProductShape made_by = {};
};

// y = x by rows [first_row, first_row + y's width) of the weight.
struct ProductSpec {
  uint32_t x = kNoBuffer, y = kNoBuffer;
  const DeviceWeight* weight = nullptr;
  const DeviceWeight* bias = nullptr;
  uint32_t first_row = 0;
  uint32_t first_bias = 0;
  uint32_t activation = 0;
  float scale = 1;
  float softcap = 0;
  GateSpec gate;
  // Of gate and up: y of the first is activation(its y) * y of the second, which is not written,
  // where joins_gate says so.
  bool is_gate = false;
  uint32_t gate_activation = 0;
};
// Whether products of a gate and up of this shape are one for a number of rows.
[[nodiscard]] bool joins_gate(const ProductShape& shape, uint32_t n_rows, const DeviceInfo& device);
// Of one x and as many rows each: those by weights of one type are launched together.
void add_products(Planner& planner, std::span<const ProductSpec> specs);
inline void add_product(Planner& planner, const ProductSpec& spec) {
  add_products(planner, {&spec, 1});
}

// Columns of y by group: each row's group g is by matrix ids[g] of the weight, or by matrix g.
struct GroupProductSpec {
  uint32_t x, ids, y;  // ids: kNoBuffer where group g is by matrix g
  const DeviceWeight* weight;
  const DeviceWeight* bias;
  uint32_t n_groups;
  GateSpec gate = {};
};
void add_group_products(Planner& planner, std::span<const GroupProductSpec> specs);
inline void add_group_product(Planner& planner, const GroupProductSpec& spec) {
  add_group_products(planner, {&spec, 1});
}

// Parameters but for rows and their number, which are filled in; b is kNoBuffer where there is
// none.
void add_elementwise(Planner& planner, const ElementwiseParams& params, uint32_t a, uint32_t b,
                     uint32_t y);

}  // namespace bp::cuda

#pragma once
// Products of a plan, for any number of rows, and their launching.

#include <vector>

#include "backends/cuda/plan/enqueue.hpp"
#include "backends/cuda/plan/product_path.hpp"

namespace bp::cuda {

// A product of the plan, for any number of rows.
struct PlannedProduct {
  ProductShape shape;
  DeviceInfo device;
  uint32_t x = kNoBuffer, y = kNoBuffer;
  uint32_t prepared = kNoBuffer, partials = kNoBuffer, slice = kNoBuffer, sorted = kNoBuffer;
  uint32_t ids = kNoBuffer;
  bool is_last_of_x = false;  // nothing reads `prepared` after it
  uint32_t n_parts = 1;       // of a row of x that are multiplied apart
  const DeviceWeight* weight = nullptr;
  const DeviceWeight* bias = nullptr;
  uint32_t first_bias = 0;
  Epilogue epilogue;
  uint32_t first_row = 0;
  GateSpec gate;  // of x
  bool is_gate = false;
  uint32_t gate_activation = 0;

  [[nodiscard]] ProductKind kind(uint32_t n_rows) const {
    return product_kind(shape, n_rows, device);
  }
};

// Products of one x by weights of one type.
using Together = std::vector<PlannedProduct>;

// x in the form that the product takes, combined first where it has a gate.
Status prepare_rows(const StageContext& c, const PlannedProduct& product);
Status prepare_rows(const StageContext& c, const PlannedProduct& product, XForm form);
// The pairs of a group product, where tiles are taken.
Status sort_pairs(const StageContext& c, const PlannedProduct& product);
// After both.
Status launch_products(const StageContext& c, const Together& products);

}  // namespace bp::cuda

// select_rows, slice, slice_groups, concat_groups.

#include "backends/cuda/kernels/columns.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

void add_columns(Planner& planner, const ColumnsParams& params, uint32_t x, uint32_t y,
                 bool selects = false) {
  planner.add([params, x, y, selects](const StageContext& c) {
    ColumnsParams p = params;
    p.x = c.rows(x);
    p.y = c.rows(y);
    p.n_rows = c.n_rows(y);
    if (selects) {
      p.step = c.step;
      p.output = c.buffers[y].output;
    }
    return c.stream.launch(columns_kernel(), columns_geometry(p), p);
  });
}

}  // namespace

Status plan_select_rows(Planner& planner) {
  const uint32_t x = planner.input(0), y = planner.output(0);
  ColumnsParams p;
  p.n = planner.width(y);
  add_columns(planner, p, x, y, true);
  return {};
}

Status plan_slice(Planner& planner) {
  const auto a = planner.attributes<bp_attr_slice>();
  const uint32_t x = planner.input(0), y = planner.output(0);
  ColumnsParams p;
  p.n = static_cast<uint32_t>(a.n);
  p.x_first = static_cast<uint32_t>(a.first);
  add_columns(planner, p, x, y);
  return {};
}

Status plan_slice_groups(Planner& planner) {
  const auto a = planner.attributes<bp_attr_slice_groups>();
  const uint32_t x = planner.input(0), y = planner.output(0);
  ColumnsParams p;
  p.n_groups = a.n_groups;
  p.n = a.n;
  p.x_part = planner.width(x) / a.n_groups;
  p.x_first = a.first;
  p.y_part = a.n;
  add_columns(planner, p, x, y);
  return {};
}

Status plan_concat_groups(Planner& planner) {
  const auto attributes = planner.attributes<bp_attr_concat_groups>();
  const uint32_t a = planner.input(0), b = planner.input(1), y = planner.output(0);
  ColumnsParams p;
  p.n_groups = attributes.n_groups;
  p.y_part = planner.width(y) / attributes.n_groups;
  p.n = p.x_part = planner.width(a) / attributes.n_groups;
  add_columns(planner, p, a, y);
  p.y_first = p.n;
  p.n = planner.width(b) / attributes.b_groups;
  p.x_part = attributes.b_groups == 1 ? 0 : p.n;
  add_columns(planner, p, b, y);
  return {};
}

}  // namespace bp::cuda

// attention, attend, kv_write.

#include "backends/cuda/kernels/attend.hpp"
#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

Status write_plane(const StageContext& c, uint32_t x, const KvPlane& plane, uint32_t group) {
  KvWriteParams p;
  p.x = c.rows(x);
  p.plane = plane;
  p.step = c.step;
  p.group = group;
  p.n_rows = c.n_rows(x);
  return c.stream.launch(kv_write_kernel(plane.dtype), kv_write_geometry(p), p);
}

void add_write(Planner& planner, uint32_t slot, uint32_t k, uint32_t v) {
  planner.add([=](const StageContext& c) -> Status {
    BP_TRY(write_plane(c, k, c.kv.k(slot), c.kv.group(slot)));
    return write_plane(c, v, c.kv.v(slot), c.kv.group(slot));
  });
}

void add_attend(Planner& planner, const bp_attr_attention& a) {
  const uint32_t q = planner.input(0), o = planner.output(0);
  const DeviceWeight* sinks = planner.floats(0);
  planner.add([=](const StageContext& c) {
    AttendParams p;
    p.q = c.rows(q);
    p.o = c.rows(o);
    p.k = c.kv.k(a.kv_slot);
    p.v = c.kv.v(a.kv_slot);
    p.step = c.step;
    if (sinks != nullptr) p.sinks = sinks->floats();
    p.group = c.kv.group(a.kv_slot);
    p.n_rows = c.n_rows(o);
    p.n_heads = a.n_heads;
    p.is_causal = a.causal;
    p.window = a.window;
    p.scale = a.scale;
    p.softcap = a.softcap;
    return c.stream.launch(attend_kernel(p.k.dtype, p.v.dtype, p.v.head_dim), attend_geometry(p),
                           p);
  });
}

}  // namespace

Status plan_attention(Planner& planner) {
  const auto a = planner.attributes<bp_attr_attention>();
  if (a.writes_kv != 0) add_write(planner, a.kv_slot, planner.input(1), planner.input(2));
  add_attend(planner, a);
  return {};
}

Status plan_attend(Planner& planner) {
  add_attend(planner, planner.attributes<bp_attr_attention>());
  return {};
}

Status plan_kv_write(Planner& planner) {
  const uint32_t slot = planner.attributes<bp_attr_kv_write>().kv_slot;
  add_write(planner, slot, planner.input(0), planner.input(1));
  return {};
}

}  // namespace bp::cuda

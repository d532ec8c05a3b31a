// embed, gather, add_positions, norm, normalize, rope, rotate.

#include <vector>

#include "backends/cuda/kernels/embed.hpp"
#include "backends/cuda/kernels/norm.hpp"
#include "backends/cuda/kernels/rotate.hpp"
#include "backends/cuda/plan/enqueue.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

struct LookUp {
  const DeviceWeight* table;
  uint32_t x, y;  // buffers
  float scale = 1;
  bool by_position = false;
  uint32_t offset = 0;
};

void add_look_up(Planner& planner, const LookUp& l) {
  planner.add([l](const StageContext& c) {
    EmbedParams p;
    p.table = l.table->matrix();
    p.step = c.step;
    if (l.x != kNoBuffer) p.x = c.rows(l.x);
    p.y = c.rows(l.y);
    p.n_rows = c.n_rows(l.y);
    p.n_table = static_cast<uint32_t>(l.table->source().n_rows);
    p.scale = l.scale;
    p.by = l.by_position ? RowsBy::kPosition : RowsBy::kToken;
    p.offset = l.offset;
    return c.stream.launch(embed_kernel(p.table.dtype), embed_geometry(p), p);
  });
}

void add_tokens(Planner& planner, float scale) {
  const DeviceWeight* table = planner.matrix(0);
  planner.limit_ids(static_cast<uint32_t>(table->source().n_rows));
  add_look_up(planner, {table, kNoBuffer, planner.output(0), scale});
}

struct Turn {
  struct Part {
    uint32_t x, y, n_heads;
  };
  std::vector<Part> parts;  // one or two
  const DeviceWeight* inv_freq;
  bp_attr_rope rope;
};

void add_turn(Planner& planner, const Turn& turn) {
  planner.add([turn](const StageContext& c) {
    RotateParams p;
    p.n_parts = static_cast<uint32_t>(turn.parts.size());
    for (uint32_t i = 0; i < p.n_parts; ++i) {
      p.parts[i] = {c.rows(turn.parts[i].x), c.rows(turn.parts[i].y), turn.parts[i].n_heads};
    }
    p.step = c.step;
    p.rotation = rotation_of(turn.rope, *turn.inv_freq);
    p.n_rows = c.n_rows(turn.parts[0].y);
    p.head_dim = turn.rope.head_dim;
    return c.stream.launch(rotate_kernel(), rotate_geometry(p), p);
  });
}

}  // namespace

Status plan_embed(Planner& planner) {
  add_tokens(planner, planner.attributes<bp_attr_embed>().scale);
  return {};
}

Status plan_gather(Planner& planner) {
  add_tokens(planner, 1);
  return {};
}

Status plan_add_positions(Planner& planner) {
  const auto a = planner.attributes<bp_attr_add_positions>();
  const DeviceWeight* table = planner.matrix(0);
  const uint64_t n = table->source().n_rows;
  planner.limit_positions(static_cast<uint32_t>(n > a.offset ? n - a.offset : 0));
  add_look_up(planner, {table, planner.input(0), planner.output(0), 1, true, a.offset});
  return {};
}

Status plan_norm(Planner& planner) {
  const auto a = planner.attributes<bp_attr_norm>();
  NormSpec spec;
  spec.x = planner.input(0);
  if (planner.has_input(1)) spec.residual = planner.input(1);
  spec.y = planner.output(0);
  if (planner.has_output(1)) spec.sum = planner.output(1);
  spec.weight = planner.floats(0);
  spec.bias = planner.floats(1);
  spec.kind = a.kind;
  spec.eps = a.eps;
  spec.weight_offset = a.weight_offset;
  spec.group = a.group;
  add_norm(planner, spec);
  return {};
}

Status plan_normalize(Planner& planner) {
  const auto a = planner.attributes<bp_attr_normalize>();
  NormSpec spec;
  spec.x = planner.input(0);
  spec.y = planner.output(0);
  spec.kind = a.kind;
  spec.eps = a.eps;
  spec.group = a.group;
  add_norm(planner, spec);
  return {};
}

Status plan_rope(Planner& planner) {
  if (planner.head_chain() != nullptr) return {};  // attention's first launch turns q and k
  const auto a = planner.attributes<bp_attr_rope>();
  Turn turn{{{planner.input(0), planner.output(0), a.n_heads}}, planner.floats(0), a};
  if (planner.has_input(1)) {
    turn.parts.push_back({planner.input(1), planner.output(1), a.n_kv_heads});
  }
  add_turn(planner, turn);
  return {};
}

Status plan_rotate(Planner& planner) {
  const auto a = planner.attributes<bp_attr_rotate>();
  bp_attr_rope rope{};
  rope.pairing = a.pairing;
  rope.head_dim = a.head_dim;
  rope.n_dims = a.n_dims;
  rope.magnitude = a.magnitude;
  add_turn(planner, {{{planner.input(0), planner.output(0), a.n_heads}}, planner.floats(0), rope});
  return {};
}

}  // namespace bp::cuda

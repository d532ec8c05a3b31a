// attention, attend, kv_write.

#include "backends/cuda/kernels/heads.hpp"
#include "backends/cuda/kernels/kv.hpp"
#include "backends/cuda/kernels/prepare.hpp"
#include "backends/cuda/plan/attend_path.hpp"
#include "backends/cuda/plan/enqueue.hpp"
#include "backends/cuda/plan/plan_ops.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

void add_write(Planner& planner, uint32_t slot, uint32_t k, uint32_t v) {
  planner.add([=](const StageContext& c) -> Status {
    KvWriteParams p;
    p.parts[0] = {c.rows(k), c.kv.k(slot)};
    p.parts[1] = {c.rows(v), c.kv.v(slot)};
    p.step = c.step;
    p.group = c.kv.group(slot);
    p.n_rows = c.n_rows(k);
    const bp_dtype k_dtype = p.parts[0].plane.dtype, v_dtype = p.parts[1].plane.dtype;
    p.n_parts = k_dtype == v_dtype ? 2 : 1;
    BP_TRY(c.stream.launch(kv_write_kernel(k_dtype), kv_write_geometry(p), p));
    if (p.n_parts == 2) return {};
    p.parts[0] = p.parts[1];
    return c.stream.launch(kv_write_kernel(v_dtype), kv_write_geometry(p), p);
  });
}

struct HeadsSpec {
  uint32_t q, k, v, to_q;  // buffers
  const DeviceWeight* q_norm = nullptr;
  const DeviceWeight* k_norm = nullptr;
  const DeviceWeight* inv_freq = nullptr;
  bp_attr_qkv norm{};
  bp_attr_rope rope{};
};

HeadsSpec heads_spec(Planner& planner, const HeadChain& chain) {
  HeadsSpec spec{planner.buffer_of(chain.q), planner.buffer_of(chain.k), planner.input(2),
                 planner.input(0)};
  if (chain.qkv != nullptr) {
    spec.q_norm = planner.floats(*chain.qkv, kQNormOfQkv);
    spec.k_norm = planner.floats(*chain.qkv, kQNormOfQkv + 1);
    spec.norm = attributes_of<bp_attr_qkv>(*chain.qkv);
  }
  if (chain.rope != nullptr) {
    spec.inv_freq = planner.floats(*chain.rope, 0);
    spec.rope = attributes_of<bp_attr_rope>(*chain.rope);
  }
  return spec;
}

// Queries as attention reads them, and the cache written, in one launch.
void add_heads(Planner& planner, const bp_attr_attention& a, const HeadChain& chain) {
  planner.add([a, spec = heads_spec(planner, chain)](const StageContext& c) {
    HeadsParams p;
    p.q = c.rows(spec.q);
    p.k = c.rows(spec.k);
    p.v = c.rows(spec.v);
    p.to_q = c.rows(spec.to_q);
    p.to_k = c.kv.k(a.kv_slot);
    p.to_v = c.kv.v(a.kv_slot);
    p.step = c.step;
    if (spec.q_norm != nullptr) p.q_norm = spec.q_norm->floats();
    if (spec.k_norm != nullptr) p.k_norm = spec.k_norm->floats();
    p.eps = spec.norm.norm_eps;
    p.weight_offset = spec.norm.norm_weight_offset;
    p.subtracts_mean = spec.norm.norm_kind == BP_NORM_LAYER ? 1 : 0;
    if (spec.inv_freq != nullptr) p.rotation = rotation_of(spec.rope, *spec.inv_freq);
    p.group = c.kv.group(a.kv_slot);
    p.n_rows = c.n_rows(spec.to_q);
    p.n_heads = a.n_heads;
    return c.stream.launch(heads_kernel(), heads_geometry(p), p);
  });
}

// o in the form that the product after it takes, where attention has not written it.
Status prepare_output(const StageContext& c, const Prepared& prepared, XForm form,
                      const AttendParams& attended) {
  if (form == XForm::kFloats) return {};
  PrepareParams p;
  p.x.a = attended.o;
  p.out = {c.bytes(prepared.buffer), prepared_bytes(prepared.n_in)};
  p.form = form;
  p.n_rows = attended.n_rows;
  p.n_in = prepared.n_in;
  return c.stream.launch(prepare_kernel(), prepare_geometry(p), p);
}

void add_attend(Planner& planner, const bp_attr_attention& a) {
  const uint32_t q = planner.input(0), o = planner.output(0);
  const DeviceWeight* sinks = planner.floats(0);
  const DeviceWeight* slopes = planner.floats(1);
  const uint32_t splits =
      planner.scratch(Planner::Purpose::kPartials,
                      most_split_bytes(a.n_heads, a.n_kv_heads, a.v_head_dim, planner.device()));
  const Prepared prepared = prepare_for_consumer(planner, o);
  planner.add([=, device = planner.device()](const StageContext& c) -> Status {
    AttendParams p;
    p.q = c.rows(q);
    p.o = c.rows(o);
    p.k = c.kv.k(a.kv_slot);
    p.v = c.kv.v(a.kv_slot);
    p.step = c.step;
    if (sinks != nullptr) p.sinks = sinks->floats();
    if (slopes != nullptr) p.slopes = slopes->floats();
    p.slope_rounding = a.slope_rounding;
    p.group = c.kv.group(a.kv_slot);
    p.n_rows = c.n_rows(o);
    p.n_heads = a.n_heads;
    p.is_causal = a.causal;
    p.window = a.window;
    p.scale = a.scale;
    p.softcap = a.softcap;
    if (p.n_rows == 0) return {};
    p.n_seqs = c.shape.n_seqs;
    p.n_stages = flash_stages(p, device);
    const XForm form = form_of(prepared, p.n_rows, device);
    if (p.n_stages == 0) {
      const auto kernel = attend_kernel(p.k.dtype, p.v.dtype, p.v.head_dim);
      BP_TRY(c.stream.launch(kernel, attend_geometry(p), p));
      return prepare_output(c, prepared, form, p);
    }
    p.n_splits = flash_splits(p, c.shape.is_decode, c.shape.longest_context, device);
    if (p.n_splits > 1) p.partials = reinterpret_cast<float*>(c.bytes(splits));
    BP_TRY(c.stream.launch(flash_kernel(p), flash_geometry(p), p));
    if (p.n_splits == 1) return prepare_output(c, prepared, form, p);
    const bool in_whole_runs = p.v.head_dim % (form == XForm::kBytesOf32 ? 32 : 16) == 0;
    if (form != XForm::kFloats && in_whole_runs) {
      p.form = form;
      p.prepared = {c.bytes(prepared.buffer), prepared_bytes(prepared.n_in)};
    }
    BP_TRY(c.stream.launch(fold_splits_kernel(), fold_splits_geometry(p), p));
    return in_whole_runs ? Status() : prepare_output(c, prepared, form, p);
  });
}

}  // namespace

Status plan_attention(Planner& planner) {
  const auto a = planner.attributes<bp_attr_attention>();
  if (const HeadChain* chain = planner.head_chain()) {
    add_heads(planner, a, *chain);
  } else if (a.writes_kv != 0) {
    add_write(planner, a.kv_slot, planner.input(1), planner.input(2));
  }
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

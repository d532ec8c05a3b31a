// attention, attend, kv_write.

#include "backends/cuda/kernels/flash.hpp"
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

struct AttendSpec {
  bp_attr_attention a{};
  DeviceInfo device;
  uint32_t q = kNoBuffer, o = kNoBuffer, work = kNoBuffer, partials = kNoBuffer;
  const DeviceWeight* sinks = nullptr;
  const DeviceWeight* slopes = nullptr;

  // The same for all attention that has the same items (items_key).
  [[nodiscard]] uint32_t tile_rows(const StageContext& c) const {
    if (c.shape.is_decode) return kFlashRows;
    return flash_tile_rows(a, c.kv.k_dtype(), c.kv.v_dtype(), c.n_rows(o), device);
  }
  [[nodiscard]] uint32_t tokens_of_tile(const StageContext& c) const {
    return tile_rows(c) / heads_together(a);
  }
  [[nodiscard]] uint32_t n_slots() const { return flash_slots(a.n_kv_heads, device); }
};

// Where there are no items, the general kernel has all rows.
bool may_have_items(const AttendSpec& spec) {
  return heads_together(spec.a) <= kFlashRows && spec.slopes == nullptr;
}

// The items lie behind their number and the splits of sequences; nowhere, where launches are only
// looked at.
FlashWork work_of(const StageContext& c, const AttendSpec& spec) {
  FlashWork work;
  work.most_items =
      most_flash_items(c.n_rows(spec.o), c.shape.n_seqs, spec.tokens_of_tile(c), spec.n_slots());
  if (c.workspace == nullptr) return work;
  uint8_t* const at = c.bytes(spec.work);
  work.n_items = reinterpret_cast<uint32_t*>(at);
  work.splits = reinterpret_cast<FlashSplits*>(at) + 1;
  work.items = reinterpret_cast<FlashItem*>(work.splits + c.shape.n_seqs + 1);
  return work;
}
uint64_t work_bytes(const StepShape& most, const AttendSpec& spec) {
  const uint64_t n_items = most_flash_items(most.n_tokens, most.n_seqs,
                                            kFlashRows / heads_together(spec.a), spec.n_slots());
  return (uint64_t{most.n_seqs} + 2) * sizeof(FlashSplits) + n_items * sizeof(FlashItem);
}

AttendParams params_of(const StageContext& c, const AttendSpec& spec) {
  const bp_attr_attention& a = spec.a;
  AttendParams p;
  p.q = c.rows(spec.q);
  p.o = c.rows(spec.o);
  p.k = c.kv.k(a.kv_slot);
  p.v = c.kv.v(a.kv_slot);
  p.step = c.step;
  if (spec.sinks != nullptr) p.sinks = spec.sinks->floats();
  if (spec.slopes != nullptr) p.slopes = spec.slopes->floats();
  p.slope_rounding = a.slope_rounding;
  p.group = c.kv.group(a.kv_slot);
  p.n_rows = c.n_rows(spec.o);
  p.n_heads = a.n_heads;
  p.is_causal = a.causal;
  p.window = a.window;
  p.scale = a.scale;
  p.softcap = a.softcap;
  p.tile_rows = spec.tile_rows(c);
  p.n_stages = flash_stages(p, spec.device);
  if (p.n_stages == 0) return p;
  p.work = work_of(c, spec);
  if (spec.partials != kNoBuffer) p.partials = reinterpret_cast<float*>(c.bytes(spec.partials));
  return p;
}

// Equal for attention that has the same items in every step.
uint64_t items_key(const bp_attr_attention& a) {
  const bool is_exact = exact_flash_dim(a.head_dim, a.v_head_dim) != 0;
  return uint64_t{is_exact} << 57 | uint64_t{a.causal != 0} << 56 |
         uint64_t{heads_together(a)} << 48 | uint64_t{a.n_kv_heads} << 32 | a.window;
}

// The buffer with the items, and the stage that fills it where the step has none yet.
uint32_t add_items(Planner& planner, AttendSpec spec) {
  const uint64_t key = items_key(spec.a);
  const uint32_t made = planner.made_of(kNoBuffer, key);
  if (made != kNoBuffer) return made;
  spec.work = planner.own_bytes(work_bytes(planner.most(), spec));
  planner.set_made_of(kNoBuffer, key, spec.work);
  planner.add([spec](const StageContext& c) -> Status {
    FlashItemsParams p;
    p.n_rows = c.n_rows(spec.o);
    const bool is_read = flash_takes(c.kv.k_dtype(), c.kv.v_dtype());
    if (p.n_rows == 0 || !is_read) return {};
    p.step = c.step;
    p.work = work_of(c, spec);
    p.tokens_of_tile = spec.tokens_of_tile(c);
    p.n_slots = spec.n_slots();
    p.is_causal = spec.a.causal;
    p.window = spec.a.window;
    return c.stream.launch(flash_items_kernel(), flash_items_geometry(p), p);
  });
  return spec.work;
}

Status attend_rows(const StageContext& c, const AttendSpec& spec, const Prepared& prepared) {
  AttendParams p = params_of(c, spec);
  if (p.n_rows == 0) return {};
  const XForm form = form_of(prepared, p.n_rows, spec.device);
  if (p.n_stages == 0) {
    const auto kernel = attend_kernel(p.k.dtype, p.v.dtype, p.v.head_dim);
    BP_TRY(c.stream.launch(kernel, attend_geometry(p), p));
    return prepare_output(c, prepared, form, p);
  }
  BP_TRY(c.stream.launch(flash_kernel(p), flash_geometry(p), p));
  if (!may_split(spec.n_slots(), c.shape.longest_context)) {
    return prepare_output(c, prepared, form, p);
  }
  const bool in_whole_runs = p.v.head_dim % (form == XForm::kBytesOf32 ? 32 : 16) == 0;
  if (form != XForm::kFloats && in_whole_runs) {
    p.form = form;
    p.prepared = {c.bytes(prepared.buffer), prepared_bytes(prepared.n_in)};
  }
  BP_TRY(c.stream.launch(fold_splits_kernel(), fold_splits_geometry(p), p));
  return in_whole_runs ? Status() : prepare_output(c, prepared, form, p);
}

void add_attend(Planner& planner, const bp_attr_attention& a) {
  AttendSpec spec;
  spec.a = a;
  spec.device = planner.device();
  spec.q = planner.input(0);
  spec.o = planner.output(0);
  spec.sinks = planner.floats(0);
  spec.slopes = planner.floats(1);
  if (may_have_items(spec)) {
    spec.work = add_items(planner, spec);
    spec.partials =
        planner.scratch(Planner::Purpose::kPartials,
                        split_bytes(a.n_heads, a.n_kv_heads, a.v_head_dim, planner.device()));
  }
  const Prepared prepared = prepare_for_consumer(planner, spec.o);
  planner.add([spec, prepared](const StageContext& c) { return attend_rows(c, spec, prepared); });
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

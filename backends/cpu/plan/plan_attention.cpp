#include <cmath>

#include "backends/cpu/plan/planner.hpp"

namespace bp::cpu {

// One table of cosines and sines serves every layer.
uint32_t Planner::rope_table(uint32_t weight, uint32_t n_dims, float magnitude) {
  const auto [entry, is_new] = rope_tables_.emplace(TableKey{weight, n_dims, magnitude}, 0);
  if (!is_new) return entry->second;
  const uint32_t out = add_buffer({}, n_dims);
  const float* inv_freq = decode_vector(weight);
  const uint32_t n_pairs = n_dims / 2;
  add_rows({}, {}, {out}, [=](const StepContext& step, uint32_t t) {
    float* row = step.values[out].row(t);
    const double position = step.batch->positions[t];
    for (uint32_t i = 0; i < n_pairs; ++i) {
      const double angle = position * inv_freq[i];
      row[i] = static_cast<float>(std::cos(angle) * magnitude);
      row[n_pairs + i] = static_cast<float>(std::sin(angle) * magnitude);
    }
  });
  entry->second = out;
  return out;
}

bool Planner::loads_heads(const bp_op& op, uint32_t index, const HeadSource& heads) const {
  const std::string_view kind = kind_of(op);
  const auto reads_at = [&](uint32_t slot) { return slot_at(input_slots(op), slot) == index; };
  if (kind == BP_OP_ATTENTION || kind == BP_OP_ATTEND) {
    return !reads_at(2) && attributes_of<bp_attr_attention>(op).head_dim == heads.head_dim;
  }
  if (kind == BP_OP_KV_WRITE) {
    const bp_kv_slot& slot = program_.kv_slots()[attributes_of<bp_attr_kv_write>(op).kv_slot];
    return !reads_at(1) && slot.k_head_dim == heads.head_dim;
  }
  if (heads.rotation) return false;
  if (kind == BP_OP_ROPE) return attributes_of<bp_attr_rope>(op).head_dim == heads.head_dim;
  return kind == BP_OP_ROTATE && attributes_of<bp_attr_rotate>(op).head_dim == heads.head_dim;
}

void Planner::provide_heads(uint32_t index, const HeadSource& heads) {
  const auto consumer = only_consumer(index);
  if (consumer && loads_heads(program_.ops()[*consumer], index, heads)) {
    buffers_[index].reset();
    held_heads_[index] = heads;
    return;
  }
  const uint32_t width = static_cast<uint32_t>(value(index).width);
  const uint32_t out = add_buffer(count_of(index), width);
  buffers_[index] = out;
  std::vector<uint32_t> reads = {heads.buffer};
  if (heads.rotation) reads.push_back(heads.rotation->table);
  add_rows(count_of(index), std::move(reads), {out}, [=](const StepContext& step, uint32_t t) {
    float* row = step.values[out].row(t);
    for (uint32_t h = 0; h < width / heads.head_dim; ++h) {
      heads.load(step, t, h, row + size_t{h} * heads.head_dim);
    }
  });
}

HeadSource Planner::take_heads(uint32_t index, uint32_t head_dim) {
  if (const auto held = held_heads_.find(index); held != held_heads_.end()) {
    const HeadSource heads = held->second;
    held_heads_.erase(held);
    return heads;
  }
  HeadSource heads;
  heads.buffer = buffer_of(index);
  heads.head_dim = head_dim;
  return heads;
}

Status Planner::plan_rope(const bp_op& op) {
  const auto a = attributes_of<bp_attr_rope>(op);
  const Rotation rotation{rope_table(op.weights[0], a.n_dims, a.magnitude), a.pairing, a.n_dims};
  for (uint32_t i = 0; i < 2; ++i) {
    if (slot_at(input_slots(op), i) == BP_NONE) continue;
    HeadSource heads = take_heads(op.inputs[i], a.head_dim);
    heads.rotation = rotation;
    provide_heads(op.outputs[i], heads);
  }
  return {};
}

Status Planner::plan_rotate(const bp_op& op) {
  const auto a = attributes_of<bp_attr_rotate>(op);
  HeadSource heads = take_heads(op.inputs[0], a.head_dim);
  heads.rotation = Rotation{rope_table(op.weights[0], a.n_dims, a.magnitude), a.pairing, a.n_dims};
  provide_heads(op.outputs[0], heads);
  return {};
}

Status Planner::plan_attention(const bp_op& op) {
  const auto a = attributes_of<bp_attr_attention>(op);
  AttentionSpec spec;
  spec.kv_slot = a.kv_slot;
  spec.n_heads = a.n_heads;
  spec.causal = a.causal != 0;
  spec.window = a.window;
  spec.scale = a.scale;
  spec.softcap = a.softcap;
  spec.sinks = vector(op, 0);
  spec.slopes = vector(op, 1);
  spec.slope_rounding = a.slope_rounding;
  spec.queries = take_heads(op.inputs[0], a.head_dim);
  if (a.writes_kv != 0) {
    KvWriteSpec write;
    write.keys = take_heads(op.inputs[1], a.head_dim);
    write.values = take_heads(op.inputs[2], a.v_head_dim);
    spec.write = write;
  }
  open(op.outputs[0]);
  spec.out = *buffers_[op.outputs[0]];
  add_stage<AttentionStage>(std::move(spec), program_.kv_slots()[a.kv_slot]);
  return {};
}

Status Planner::plan_kv_write(const bp_op& op) {
  const uint32_t index = attributes_of<bp_attr_kv_write>(op).kv_slot;
  const bp_kv_slot& slot = program_.kv_slots()[index];
  AttentionSpec spec;
  spec.kv_slot = index;
  spec.attends = false;
  KvWriteSpec write;
  write.keys = take_heads(op.inputs[0], slot.k_head_dim);
  write.values = take_heads(op.inputs[1], slot.v_head_dim);
  spec.write = write;
  add_stage<AttentionStage>(std::move(spec), slot);
  return {};
}

}  // namespace bp::cpu

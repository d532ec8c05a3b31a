#include "backends/cuda/plan/head_chain.hpp"

#include "backends/cuda/kernels/heads.hpp"
#include "backplane/ops.h"

namespace bp::cuda {

namespace {

bool has_norm(const bp_op& qkv) {
  const auto weights = weight_slots(qkv);
  return slot_at(weights, kQNormOfQkv) != BP_NONE || slot_at(weights, kQNormOfQkv + 1) != BP_NONE;
}

uint32_t head_dim_of(const bp_op& op) {
  if (kind_of(op) == BP_OP_QKV) return attributes_of<bp_attr_qkv>(op).head_dim;
  return attributes_of<bp_attr_rope>(op).head_dim;
}

}  // namespace

HeadChains::HeadChains(const ProgramView& program)
    : makers_(program.values().size()), n_readers_(program.values().size()) {
  for (const bp_op& op : program.ops()) {
    for (const uint32_t value : output_slots(op)) {
      if (value != BP_NONE) makers_[value] = &op;
    }
    for (const uint32_t value : input_slots(op)) {
      if (value != BP_NONE) ++n_readers_[value];
    }
  }
  for (const uint32_t value : program.outputs()) ++n_readers_[value];
  for (const bp_op& op : program.ops()) {
    if (kind_of(op) == BP_OP_ATTENTION) add(op);
  }
}

const bp_op* HeadChains::maker(const HeadChain& chain, std::string_view kind) const {
  const bp_op* op = makers_[chain.q];
  if (op == nullptr || kind_of(*op) != kind || n_readers_[chain.q] > 1 || n_readers_[chain.k] > 1) {
    return nullptr;
  }
  const auto made = output_slots(*op);
  const bool is_both = slot_at(made, 0) == chain.q && slot_at(made, 1) == chain.k;
  const uint32_t head_dim = attributes_of<bp_attr_attention>(*chain.attention).head_dim;
  return is_both && head_dim_of(*op) == head_dim ? op : nullptr;
}

void HeadChains::add(const bp_op& attention) {
  const auto a = attributes_of<bp_attr_attention>(attention);
  if (a.writes_kv == 0 || a.head_dim > kMaxHeadsDim) return;
  HeadChain chain;
  chain.attention = &attention;
  chain.q = attention.inputs[0];
  chain.k = attention.inputs[1];
  chain.rope = maker(chain, BP_OP_ROPE);
  if (chain.rope != nullptr) {
    chain.q = chain.rope->inputs[0];
    chain.k = chain.rope->inputs[1];
  }
  chain.qkv = maker(chain, BP_OP_QKV);
  if (chain.qkv != nullptr && !has_norm(*chain.qkv)) chain.qkv = nullptr;
  if (chain.rope == nullptr && chain.qkv == nullptr) return;
  for (const bp_op* op : {chain.qkv, chain.rope, chain.attention}) {
    if (op != nullptr) chains_[op] = chain;
  }
}

const HeadChain* HeadChains::of(const bp_op& op) const {
  const auto found = chains_.find(&op);
  return found == chains_.end() ? nullptr : &found->second;
}

}  // namespace bp::cuda

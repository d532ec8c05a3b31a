#include "backends/cpu/state_cache.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/round_up.hpp"
#include "backplane/op_attributes.hpp"

namespace bp::cpu {

StateCache::StateCache(const ProgramView& program) : slots_(program.state_slots().size()) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].n_floats = round_up(program.state_slots()[i].n_floats, 16);
  }
  for (const bp_op& op : program.ops()) {
    if (kind_of(op) == BP_OP_SHORT_CONV) {
      const auto a = attributes_of<bp_attr_short_conv>(op);
      const uint64_t width = program.values()[op.inputs[0]].width;
      slots_[a.state_slot].n_floats = (a.kernel - 1) * round_up(width, 16);
    }
    if (kind_of(op) == BP_OP_GATED_DELTA) {
      const auto a = attributes_of<bp_attr_gated_delta>(op);
      slots_[a.state_slot].n_floats =
          uint64_t{a.n_heads} * a.key_dim * round_up(uint64_t{a.value_dim}, 16);
    }
  }
}

uint64_t StateCache::entry_bytes() const {
  uint64_t n_floats = 0;
  for (const Slot& slot : slots_) n_floats += slot.n_floats;
  return n_floats * sizeof(float);
}

Status StateCache::allocate(uint32_t n_entries) {
  std::vector<AlignedBuffer> made;
  for (const Slot& slot : slots_) {
    const uint64_t bytes = uint64_t{std::max(n_entries, 1u) - 1} * slot.n_floats * sizeof(float);
    BP_ASSIGN(AlignedBuffer entries, AlignedBuffer::allocate(bytes, "a state slot"));
    made.push_back(std::move(entries));
  }
  for (size_t i = 0; i < made.size(); ++i) slots_[i].entries = std::move(made[i]);
  n_entries_ = n_entries;
  return {};
}

void StateCache::apply(const bp_block_op& op) {
  float* to = entry(op.index, op.destination);
  const uint64_t n_floats = slots_[op.index].n_floats;
  if (op.action == BP_BLOCK_CLEAR || op.source == 0) {
    std::fill_n(to, n_floats, 0.0f);
  } else {
    std::memmove(to, entry(op.index, op.source), n_floats * sizeof(float));
  }
}

}  // namespace bp::cpu

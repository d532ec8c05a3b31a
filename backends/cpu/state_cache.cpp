#include "backends/cpu/state_cache.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/round_up.hpp"
#include "backplane/op_attributes.hpp"

namespace bp::cpu {

StateCache::StateCache(const ProgramView& program) : slots_(program.state_slots().size()) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].n_columns = program.state_slots()[i].n_floats;
    slots_[i].n_floats = round_up(slots_[i].n_columns, 16);
  }
  for (const bp_op& op : program.ops()) {
    if (kind_of(op) == BP_OP_SHORT_CONV) {
      const auto a = attributes_of<bp_attr_short_conv>(op);
      const uint64_t width = program.values()[op.inputs[0]].width;
      Slot& slot = slots_[a.state_slot];
      slot.n_floats = (a.kernel - 1) * round_up(width, 16);
      slot.n_heads = a.kernel - 1;
      slot.n_columns = width;
    }
    if (kind_of(op) == BP_OP_GATED_DELTA) {
      const auto a = attributes_of<bp_attr_gated_delta>(op);
      Slot& slot = slots_[a.state_slot];
      slot.n_floats = uint64_t{a.n_heads} * a.key_dim * round_up(uint64_t{a.value_dim}, 16);
      slot.n_heads = a.n_heads;
      slot.n_rows = a.key_dim;
      slot.n_columns = a.value_dim;
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

template <class F>
void StateCache::for_each_run(const Slot& slot, F&& f) {
  constexpr uint64_t kPanel = 16;
  const uint64_t n_padded = round_up(slot.n_columns, kPanel);
  uint64_t image = 0;
  for (uint64_t h = 0; h < slot.n_heads; ++h) {
    for (uint64_t r = 0; r < slot.n_rows; ++r) {
      for (uint64_t c = 0; c < slot.n_columns; c += kPanel) {
        const uint64_t n = std::min(kPanel, slot.n_columns - c);
        f(h * slot.n_rows * n_padded + c * slot.n_rows + r * kPanel, image, n);
        image += n;
      }
    }
  }
}

void StateCache::export_entry(uint32_t slot, int32_t index, uint8_t* image) const {
  const float* kept = entry(slot, index);
  for_each_run(slots_[slot], [&](uint64_t from, uint64_t to, uint64_t n) {
    std::memcpy(image + to * sizeof(float), kept + from, n * sizeof(float));
  });
}

void StateCache::import_entry(uint32_t slot, int32_t index, const uint8_t* image) {
  float* kept = entry(slot, index);
  std::fill_n(kept, slots_[slot].n_floats, 0.0f);
  for_each_run(slots_[slot], [&](uint64_t to, uint64_t from, uint64_t n) {
    std::memcpy(kept + to, image + from * sizeof(float), n * sizeof(float));
  });
}

}  // namespace bp::cpu

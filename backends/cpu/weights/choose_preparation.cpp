#include "backends/cpu/weights/choose_preparation.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "backplane/dtype.hpp"

namespace bp::cpu {

namespace {

// For workspace, code and what a step reads ahead, half of it for the latter (WeightStream).
constexpr uint64_t kReserveBytes = uint64_t{256} << 20;

// Where a sequence of full length would take most of the memory, the context is cut.
uint64_t kv_share(const MemoryNeeds& needs, uint64_t available_bytes) {
  return std::min(needs.kv, available_bytes / 4);
}

// Weights that products read; embeddings are read in the file.
std::set<uint32_t> product_weights(const ProgramView& program) {
  std::set<uint32_t> used;
  for (const bp_op& op : program.ops()) {
    const std::string_view kind = kind_of(op);
    if (kind == BP_OP_EMBED || kind == BP_OP_GATHER || kind == BP_OP_ADD_POSITIONS) continue;
    for (const uint32_t weight : weight_slots(op)) {
      if (weight != BP_NONE) used.insert(weight);
    }
  }
  return used;
}

// Each matrix of a stack has strips of its own.
uint64_t packed_bytes(const bp_weight& weight, Prepare prepare, Bf16Layout bf16_layout) {
  const bp_weight_part& part = *data_part(weight);
  const WeightRows rows = WeightRows::of(weight);
  const uint64_t n_rows = part.n_dims < 3 ? rows.n_rows : part.dims[part.n_dims - 2];
  return rows.n_rows / n_rows *
         PreparedWeight(rows.slice(0, n_rows), prepare, bf16_layout).packed_bytes();
}

// Less is packed in no time, and needs no file beside the model.
constexpr uint64_t kWorthAFileBytes = uint64_t{64} << 20;

}  // namespace

MemoryNeeds MemoryNeeds::of(const ProgramView& program, Bf16Layout bf16_layout) {
  const std::set<uint32_t> products = product_weights(program);
  MemoryNeeds needs;
  for (uint32_t i = 0; i < program.weights().size(); ++i) {
    const bp_weight& weight = program.weights()[i];
    const bool is_product = products.contains(i);
    const bool has_file = data_part(weight)->file != BP_NONE;
    const uint64_t packed = is_product ? packed_bytes(weight, Prepare::kRepack, bf16_layout) : 0;
    needs.packed += packed;
    if (has_file && is_product) {
      needs.cached += packed_bytes(weight, Prepare::kCache, bf16_layout);
    }
    if (!has_file && packed > 0) {
      needs.unfiled += packed;
    } else {
      (packed > 0 ? needs.source : needs.mapped) += WeightRows::of(weight).source_bytes();
    }
  }
  return needs;
}

uint64_t MemoryNeeds::own_bytes(Prepare prepare) const {
  switch (prepare) {
    case Prepare::kRepack:
      return packed;
    case Prepare::kCache:
      return unfiled;
    default:
      return 0;
  }
}

uint64_t MemoryNeeds::mapped_bytes(Prepare prepare) const {
  switch (prepare) {
    case Prepare::kRepack:
      return mapped;
    case Prepare::kCache:
      return mapped + packed - unfiled;
    default:
      return mapped + source;
  }
}

uint64_t resident_bytes_of(Prepare prepare, const MemoryNeeds& needs, uint64_t available_bytes) {
  if (prepare == Prepare::kRepack) return UINT64_MAX;
  const uint64_t mapped = needs.mapped_bytes(prepare);
  const uint64_t others =
      kv_share(needs, available_bytes) + kReserveBytes + needs.own_bytes(prepare);
  const uint64_t room = available_bytes - std::min(available_bytes, others);
  return mapped <= room ? UINT64_MAX : room;
}

Preparation choose_preparation(std::optional<Prepare> wanted, const MemoryNeeds& needs,
                               CacheState cache, uint64_t available_bytes) {
  const uint64_t others = kv_share(needs, available_bytes) + kReserveBytes + needs.mapped;
  const uint64_t room = available_bytes - std::min(available_bytes, others);
  // Memory of our own cannot be taken back by the system, so it leaves a quarter to others.
  const bool fits_well = needs.packed + others <= available_bytes / 4 * 3;

  Prepare prepare = wanted.value_or(Prepare::kRepack);
  const bool is_worth_a_file = needs.cached >= kWorthAFileBytes || (needs.cached > 0 && !fits_well);
  if (!wanted && cache == CacheState::kReady) prepare = Prepare::kCache;
  if (!wanted && cache == CacheState::kWritable && is_worth_a_file) prepare = Prepare::kCache;
  if (prepare == Prepare::kCache && cache == CacheState::kNone) prepare = Prepare::kRepack;
  if (prepare != wanted && needs.own_bytes(prepare) > room) prepare = Prepare::kNone;
  return {prepare, resident_bytes_of(prepare, needs, available_bytes)};
}

}  // namespace bp::cpu

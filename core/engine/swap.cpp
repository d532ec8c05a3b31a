#include "core/engine/swap.hpp"

#include <utility>
#include <vector>

#include "core/engine/clock.hpp"

namespace bp::engine {

namespace {

// Adds the time of its life.
class Stopwatch {
 public:
  explicit Stopwatch(uint64_t& sum_us) : sum_us_(sum_us), begin_us_(now_us()) {}
  ~Stopwatch() { sum_us_ += now_us() - begin_us_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  uint64_t& sum_us_;
  const uint64_t begin_us_;
};

}  // namespace

uint64_t Swap::bytes_of(uint32_t n_blocks, const kv::BlockManager& kv) const {
  uint64_t n_bytes = 0;
  for (uint32_t g = 0; g < kv.n_groups(); ++g) n_bytes += n_blocks * transfer_->image_bytes(g);
  if (kv.has_states()) n_bytes += transfer_->image_bytes(kv.n_groups());
  return n_bytes;
}

template <class F>
Status Swap::for_each_group(std::span<const kv::BlockId> blocks, size_t first, kv::StateEntry state,
                            const kv::BlockManager& kv, std::span<uint8_t> images, F&& f) {
  const Stopwatch stopwatch(copy_us_);
  for (uint32_t g = 0; g < kv.n_groups(); ++g) {
    const auto group = images.first(blocks.size() * transfer_->image_bytes(g));
    images = images.subspan(group.size());
    BP_TRY(f(g, blocks.subspan(first), group.subspan(first * transfer_->image_bytes(g))));
  }
  if (!kv.has_states()) return {};
  return f(kv.n_groups(), std::span<const kv::StateEntry>(&state, 1), images);
}

void Swap::keep(Sequence& s, const kv::BlockManager& kv, Stats& stats) {
  s.kept = {};
  if (!transfer_ || s.n_computed == 0) return;
  const uint32_t n_blocks = kv.blocks_for(s.n_computed);
  kv::SwapStore::Images images = store_.take(bytes_of(n_blocks, kv), s.n_computed);
  if (images.empty()) return stats.swap_refused.add();
  const auto blocks = std::span<const kv::BlockId>(s.table.blocks).first(n_blocks);
  const Status status =
      for_each_group(blocks, 0, s.table.state, kv, images.bytes(),
                     [&](uint32_t group, std::span<const int32_t> ids, std::span<uint8_t> to) {
                       return transfer_->export_blocks(group, ids, to);
                     });
  if (!status.ok()) return stats.swap_failures.add();
  stats.swap_out_blocks.add(n_blocks);
  stats.swap_out_bytes.add(images.bytes().size());
  s.kept = std::move(images);
}

bool Swap::restore(Sequence& s, kv::BlockManager& kv, Stats& stats) {
  const uint32_t n_tokens = s.kept.n_tokens();
  if (n_tokens <= s.n_computed) {
    s.kept = {};
    return true;
  }
  std::vector<bp_block_op> none;  // found blocks are full, so that none is copied to be written
  if (!kv.reserve(s.table, s.n_computed, n_tokens, none)) return false;
  const kv::SwapStore::Images images = std::exchange(s.kept, {});
  const uint32_t first = s.n_computed / kv.block_size();
  const auto blocks = std::span<const kv::BlockId>(s.table.blocks).first(kv.blocks_for(n_tokens));
  uint64_t n_bytes = 0;
  const Status status = for_each_group(
      blocks, first, s.table.next_state, kv, images.bytes(),
      [&](uint32_t group, std::span<const int32_t> ids, std::span<const uint8_t> from) {
        n_bytes += from.size();
        return transfer_->import_blocks(group, ids, from);
      });
  if (!status.ok()) {
    stats.swap_failures.add();
    return true;
  }
  stats.swap_in_blocks.add(blocks.size() - first);
  stats.swap_in_bytes.add(n_bytes);
  s.n_computed = n_tokens;
  kv.advance_state(s.table);
  return true;
}

}  // namespace bp::engine

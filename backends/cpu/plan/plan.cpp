#include "backends/cpu/plan/plan.hpp"

#include <algorithm>
#include <set>

namespace bp::cpu {

namespace {

struct Lifetime {
  uint32_t first = ~0u;
  uint32_t last = 0;
  void extend(uint32_t stage) {
    first = std::min(first, stage);
    last = std::max(last, stage);
  }
  [[nodiscard]] bool overlaps(const Lifetime& other) const {
    return first <= other.last && other.first <= last;
  }
};

std::vector<Lifetime> lifetimes(const Plan& plan) {
  std::vector<Lifetime> all(plan.buffers.size());
  for (uint32_t s = 0; s < plan.stages.size(); ++s) {
    for (const uint32_t b : plan.stages[s]->reads) all[b].extend(s);
    for (const uint32_t b : plan.stages[s]->writes) all[b].extend(s);
  }
  for (size_t b = 0; b < all.size(); ++b) {
    if (plan.buffers[b].is_output) all[b].last = ~0u;
  }
  return all;
}

// Gives the buffers, in this order, the lowest offsets free during their lives; returns the bytes
// they take.
size_t place(Plan& plan, const std::vector<Lifetime>& lives, const std::vector<uint32_t>& order,
             const StageLimits& limits) {
  size_t total = 0;
  std::vector<uint32_t> placed;
  for (const uint32_t b : order) {
    const size_t bytes = plan.buffers[b].bytes(limits);
    std::set<std::pair<size_t, size_t>> taken;
    for (const uint32_t other : placed) {
      if (!lives[b].overlaps(lives[other])) continue;
      const size_t begin = plan.buffers[other].offset;
      taken.emplace(begin, begin + plan.buffers[other].bytes(limits));
    }
    size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + bytes <= begin) break;
      offset = std::max(offset, end);
    }
    plan.buffers[b].offset = offset;
    total = std::max(total, offset + bytes);
    placed.push_back(b);
  }
  return total;
}

size_t touched_bytes(const Plan& plan, const StageLimits& limits) {
  size_t bytes = 0;
  for (const ByteRange& range : written_ranges(plan, limits)) bytes += range.end - range.begin;
  return bytes;
}

}  // namespace

size_t lay_out_buffers(Plan& plan, const StageLimits& limits) {
  const std::vector<Lifetime> lives = lifetimes(plan);
  StageLimits few = limits;
  few.max_output_rows = std::min(limits.max_output_rows, kFewOutputRows);
  std::vector<uint32_t> by_size;
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    if (lives[b].first != ~0u) by_size.push_back(b);
  }
  std::ranges::stable_sort(by_size, [&](uint32_t a, uint32_t b) {
    return plan.buffers[a].bytes(few) > plan.buffers[b].bytes(few);
  });
  // A chain of layers fits best in order of time, buffers of many sizes the largest first.
  std::vector<uint32_t> by_time = by_size;
  std::ranges::stable_sort(by_time, {}, [&](uint32_t b) { return lives[b].first; });
  place(plan, lives, by_size, limits);
  const size_t touched = touched_bytes(plan, few);
  const size_t total = place(plan, lives, by_time, limits);
  return touched_bytes(plan, few) <= touched ? total : place(plan, lives, by_size, limits);
}

std::vector<ByteRange> written_ranges(const Plan& plan, const StageLimits& limits) {
  std::vector<ByteRange> ranges;
  for (const Buffer& b : plan.buffers) ranges.push_back({b.offset, b.offset + b.bytes(limits)});
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    if (merged.empty() || range.begin > merged.back().end) merged.push_back(range);
    merged.back().end = std::max(merged.back().end, range.end);
  }
  return merged;
}

uint64_t Plan::weights_bytes() const {
  std::set<const PreparedWeight*> distinct;
  for (const auto& weight : weights) distinct.insert(weight.get());
  uint64_t bytes = 0;
  for (const PreparedWeight* weight : distinct) bytes += weight->owned_bytes();
  for (const auto& vector : vectors) bytes += vector->size() * sizeof(float);
  return bytes;
}

std::vector<WeightStream::Use> Plan::mapped_weights() const {
  std::vector<WeightStream::Use> uses;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i]->owned_bytes() != 0) continue;
    uses.push_back(
        {weight_stages[i], weights[i]->bytes(), weight_is_chosen[i], weight_last_stages[i]});
  }
  return uses;
}

size_t Plan::scratch_bytes(const StageLimits& limits) const {
  size_t bytes = 0;
  for (const auto& stage : stages) bytes = std::max(bytes, stage->scratch_bytes(limits));
  return (bytes + 63) / 64 * 64;
}

size_t Plan::shared_bytes(const StageLimits& limits) const {
  size_t bytes = 0;
  for (const auto& stage : stages) bytes = std::max(bytes, stage->shared_bytes(limits));
  return (bytes + 63) / 64 * 64;
}

}  // namespace bp::cpu

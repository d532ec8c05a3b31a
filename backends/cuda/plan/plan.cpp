#include "backends/cuda/plan/plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "backplane/program.h"

namespace bp::cuda {

namespace {

constexpr size_t kAlignment = 256;

bool lives_with(const Buffer& a, const Buffer& b) {
  return a.first_stage <= b.last_stage && b.first_stage <= a.last_stage;
}

// The lowest place for n_bytes that no buffer living at the same time takes.
size_t lowest_place(const std::vector<Buffer>& buffers, const std::vector<uint32_t>& placed,
                    const Buffer& buffer, const StepShape& most) {
  std::set<std::pair<size_t, size_t>> taken;
  for (const uint32_t i : placed) {
    const Buffer& other = buffers[i];
    if (lives_with(buffer, other)) taken.emplace(other.offset, other.offset + other.n_bytes(most));
  }
  size_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + buffer.n_bytes(most) <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

}  // namespace

uint32_t Buffer::n_rows(const StepShape& shape) const {
  return rows == BP_ROWS_TOKENS ? shape.n_tokens : shape.n_output_rows[output];
}

size_t Buffer::n_bytes(const StepShape& shape) const {
  const size_t n = own_bytes > 0 ? own_bytes : size_t{n_rows(shape)} * stride() * sizeof(float);
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

size_t lay_out(std::vector<Buffer>& buffers, const StepShape& most) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].first_stage <= buffers[i].last_stage) order.push_back(i);
  }
  // The largest first, so that small ones fill the gaps.
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return buffers[a].n_bytes(most) > buffers[b].n_bytes(most);
  });
  size_t total = 0;
  std::vector<uint32_t> placed;
  for (const uint32_t i : order) {
    buffers[i].offset = lowest_place(buffers, placed, buffers[i], most);
    total = std::max(total, buffers[i].offset + buffers[i].n_bytes(most));
    placed.push_back(i);
  }
  return total;
}

Status Plan::enqueue(const StageContext& context) const {
  // Launches of one row are so short that their beginnings take much of the time; steps of more
  // rows were no faster by it, or slower.
  context.stream.let_launches_overlap(context.shape.n_tokens == 1);
  for (const Stage& stage : stages) {
    const Status status = stage.enqueue(context);
    if (!status.ok()) return status.with_context(stage.op);
  }
  return {};
}

uint64_t Plan::weights_bytes() const {
  uint64_t n_bytes = 0;
  for (const auto& weight : weights) n_bytes += weight->source().device_bytes();
  return n_bytes;
}

}  // namespace bp::cuda

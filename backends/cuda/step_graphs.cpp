#include "backends/cuda/step_graphs.hpp"

#include <algorithm>
#include <bit>

namespace bp::cuda {

namespace {

constexpr uint32_t kMaxTokens = 512;

// Few enough to capture in a moment, dense enough that padding costs at most an eighth from 8 on.
uint32_t next_size(uint32_t n) {
  if (n < 8) return 2 * n;
  return n + std::max(8u, std::bit_floor(n) / 8);
}

}  // namespace

std::vector<uint32_t> graph_sizes(uint32_t max_tokens) {
  const uint32_t most = std::min(max_tokens, kMaxTokens);
  std::vector<uint32_t> sizes;
  for (uint32_t n = 1; n < most; n = next_size(n)) sizes.push_back(n);
  if (most > 0) sizes.push_back(most);
  return sizes;
}

Status StepGraphs::capture(const Plan& plan, const StageContext& context, const StepShape& most,
                           uint32_t max_sequences, const Progress& progress) {
  const auto sizes = graph_sizes(std::min(most.n_tokens, max_sequences));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (progress.report(i, sizes.size())) return cancelled("warming up was stopped");
    StageContext own = context;
    own.shape = most;
    own.shape.n_tokens = own.shape.n_seqs = sizes[i];
    own.shape.is_decode = true;
    for (uint32_t& n : own.shape.n_output_rows) n = std::min(n, sizes[i]);
    own.shape.n_samples = std::min(most.n_samples, sizes[i]);
    BP_TRY(own.stream.begin_capture());
    const Status status = plan.enqueue(own);
    auto graph = own.stream.end_capture();  // also after an error: the stream must work again
    BP_TRY(status);
    if (!graph.ok()) return graph.status();
    by_tokens_[sizes[i]] = {std::move(graph).value(), own.shape};
  }
  return {};
}

StepGraphs::Match StepGraphs::find(const StepShape& shape) const {
  const auto found = by_tokens_.lower_bound(shape.n_tokens);
  if (!shape.is_decode || found == by_tokens_.end()) return {nullptr, shape};
  const StepShape& padded = found->second.shape;
  if (shape.n_seqs > padded.n_seqs || shape.n_samples > padded.n_samples) return {nullptr, shape};
  for (size_t o = 0; o < shape.n_output_rows.size(); ++o) {
    if (shape.n_output_rows[o] > padded.n_output_rows[o]) return {nullptr, shape};
  }
  return {found->second.graph.get(), padded};
}

}  // namespace bp::cuda

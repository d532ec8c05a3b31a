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

// Ends after an error and where an exception passes, too: the stream must work again.
class Capture {
 public:
  template <class Work>
  static Result<std::unique_ptr<Graph>> of(Stream& stream, const Work& work) {
    BP_TRY(stream.begin_capture());
    Capture capture(stream);
    BP_TRY(work());
    auto graph = stream.end_capture();
    capture.is_open_ = !graph.ok();
    return graph;
  }
  ~Capture() {
    if (is_open_) stream_.cancel_capture();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  explicit Capture(Stream& stream) : stream_(stream) {}
  Stream& stream_;
  bool is_open_ = true;
};

}  // namespace

std::vector<uint32_t> graph_sizes(uint32_t max_tokens) {
  const uint32_t most = std::min(max_tokens, kMaxTokens);
  std::vector<uint32_t> sizes;
  for (uint32_t n = 1; n < most; n = next_size(n)) sizes.push_back(n);
  if (most > 0) sizes.push_back(most);
  return sizes;
}

std::vector<StepShape> graph_shapes(const StepShape& most, uint32_t max_sequences) {
  std::vector<StepShape> shapes;
  for (const uint32_t size : graph_sizes(std::min(most.n_tokens, max_sequences))) {
    StepShape& shape = shapes.emplace_back(most);
    shape.n_tokens = shape.n_seqs = size;
    shape.is_decode = true;
    for (uint32_t& n : shape.n_output_rows) n = std::min(n, size);
    shape.n_samples = std::min(most.n_samples, size);
  }
  return shapes;
}

Status StepGraphs::capture(const Plan& plan, const StageContext& context) {
  BP_ASSIGN(auto graph, Capture::of(context.stream, [&] { return plan.enqueue(context); }));
  by_tokens_[context.shape.n_tokens] = {std::move(graph), context.shape};
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

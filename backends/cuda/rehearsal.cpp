#include "backends/cuda/rehearsal.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "backends/cuda/plan/product_path.hpp"
#include "backends/cuda/step_graphs.hpp"

namespace bp::cuda {

namespace {

// Where the kernels of a product change, powers of two among them: most limits of the library are
// such.
std::set<uint32_t> numbers_of_rows(uint32_t most) {
  std::set<uint32_t> numbers{kProductRows + 1, kSkinnyRows + 1, kWideTileRows, kLibraryRows, most};
  for (uint64_t n = 1; n <= most; n *= 2) numbers.insert(static_cast<uint32_t>(n));
  numbers.erase(numbers.upper_bound(most), numbers.end());
  numbers.erase(0);
  return numbers;
}

StepShape prompt_of(const StepShape& most, uint32_t n_tokens) {
  StepShape shape = most;
  shape.n_tokens = n_tokens;
  shape.n_seqs = 1;
  shape.is_decode = false;
  for (uint32_t& n : shape.n_output_rows) n = std::min(n, n_tokens);
  shape.n_samples = std::min(most.n_samples, n_tokens);
  return shape;
}

}  // namespace

Status KernelLoader::launch(const Launch& launch) {
  const auto [known, is_new] = shared_bytes_.try_emplace(launch.function, 0);
  if (!is_new && known->second >= launch.geometry.shared_bytes) return {};
  known->second = launch.geometry.shared_bytes;
  ++n_loads_;
  return device_.load(launch);
}

Status FirstProducts::multiply(const LibraryProduct& p) {
  const Shape shape{p.dtype,  p.w_row_bytes, p.x_row_bytes, p.y_stride,
                    p.n_rows, p.n_columns,   p.n_in};
  const auto [done, is_new] = done_.try_emplace(shape);
  if (is_new) done->second = library_.multiply(p);
  return done->second;
}

std::vector<StepShape> rehearsal_shapes(const StepShape& most, uint32_t max_sequences) {
  std::vector<StepShape> shapes = graph_shapes(most, max_sequences);
  for (const uint32_t n : numbers_of_rows(most.n_tokens)) shapes.push_back(prompt_of(most, n));
  std::ranges::stable_sort(shapes, {}, &StepShape::n_tokens);
  return shapes;
}

Result<std::vector<StepShape>> load_kernels(const Plan& plan, const StageContext& context,
                                            const std::vector<StepShape>& shapes,
                                            KernelLoader& loader) {
  std::optional<FirstProducts> products;
  if (context.library != nullptr) products.emplace(*context.library);
  std::vector<StepShape> loading;
  for (const StepShape& shape : shapes) {
    const uint32_t n_before = loader.n_loads();
    BP_TRY(plan.enqueue({loader, products ? &*products : nullptr, context.buffers,
                         context.workspace, context.step, context.kv, context.states, shape}));
    if (loader.n_loads() > n_before) loading.push_back(shape);
  }
  return loading;
}

}  // namespace bp::cuda

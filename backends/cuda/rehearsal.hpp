#pragma once
// What steps will need of the device beside memory, fetched before the first one: the code of their
// kernels, which the runtime loads when a kernel is first named and which takes device memory, and
// the library's choices for their products.

#include <map>
#include <tuple>
#include <vector>

#include "backends/cuda/device/launches_only.hpp"
#include "backends/cuda/device/matrix_library.hpp"
#include "backends/cuda/plan/plan.hpp"

namespace bp::cuda {

// Loads kernels instead of launching them, once more where a launch asks for more shared memory.
class KernelLoader : public LaunchesOnly {
 public:
  explicit KernelLoader(Device& device) : device_(device) {}

  using LaunchesOnly::launch;
  Status launch(const Launch& launch) override;

  [[nodiscard]] uint32_t n_loads() const { return n_loads_; }

 private:
  Device& device_;
  std::map<void (*)(), uint32_t> shared_bytes_;  // that kernels are loaded for
  uint32_t n_loads_ = 0;
};

// Hands on the first product of each shape.
class FirstProducts : public MatrixLibrary {
 public:
  explicit FirstProducts(MatrixLibrary& library) : library_(library) {}
  Status multiply(const LibraryProduct& product) override;
  [[nodiscard]] uint64_t n_bytes() const override { return library_.n_bytes(); }

 private:
  using Shape = std::tuple<uint32_t, uint64_t, uint64_t, uint32_t, uint32_t, uint32_t, uint32_t>;
  MatrixLibrary& library_;
  std::map<Shape, Status> done_;
};

// Steps that between them take every kernel that a step within `most` can take, and the products of
// every captured graph; small ones first.
[[nodiscard]] std::vector<StepShape> rehearsal_shapes(const StepShape& most,
                                                      uint32_t max_sequences);

// Loads the kernels of these steps, and computes their products by the library, of whatever the
// workspace holds. Returns those that had something loaded. `context` is that of any
// step; the loader takes the place of its stream.
[[nodiscard]] Result<std::vector<StepShape>> load_kernels(const Plan& plan,
                                                          const StageContext& context,
                                                          const std::vector<StepShape>& shapes,
                                                          KernelLoader& loader);

}  // namespace bp::cuda

#include "backplane/reference/dot.hpp"
#include "kernels/kernels.hpp"

namespace bp::reference {

namespace {

void project_here(const Workers& workers, const Matrix& x, const WeightRows& w, uint64_t first_row,
                  const float* bias, const Matrix& y) {
  const auto run = [&](uint64_t begin, uint64_t end, Scratch& scratch) {
    for (uint64_t o = begin; o < end; ++o) {
      const float* row = w.row(first_row + o, scratch.floats.data());
      const double shift = bias == nullptr ? 0 : bias[o];
      for (uint64_t t = 0; t < x.n_rows; ++t) {
        y.row(t)[o] = static_cast<float>(dot(x.row(t), row, x.width) + shift);
      }
    }
  };
  if (x.n_rows > 0) workers.for_ranges(y.width, x.width * x.n_rows, run);
}

}  // namespace

void project(const OpCall& call, Place place, const Matrix& x, uint32_t slot, uint64_t first_row,
             const float* bias, const Matrix& y) {
  const Workers& workers = call.step().workers();
  const BoundKernel* kernel = call.kernel(place);
  if (kernel == nullptr) {
    return project_here(workers, x, *call.weight(slot), first_row, bias, y);
  }
  run_kernel(*kernel, workers, x, y);
  if (bias == nullptr) return;
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    for (uint64_t o = 0; o < y.width; ++o) y.row(t)[o] += bias[o];
  }
}

}  // namespace bp::reference

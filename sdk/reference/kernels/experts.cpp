#include <algorithm>
#include <cmath>
#include <vector>

#include "backplane/reference/dot.hpp"
#include "backplane/reference/routing.hpp"
#include "kernels/kernels.hpp"

namespace bp::reference {

void route_row(const bp_attr_route& attributes, const float* logits, const float* bias,
               uint32_t n_experts, float* ids, float* shares) {
  RouteRoom room;
  route(attributes, logits, bias, n_experts, room, ids, shares);
}

void group_matmul(const OpCall& call, const Matrix& x, const Matrix* ids, uint32_t n_groups,
                  const WeightRows& w, const WeightRows* bias, const Matrix& y) {
  const uint64_t n_in = w.width(), n_out = y.width / n_groups, n_matrices = w.n_rows() / n_out;
  const bool shared = x.width == n_in && n_groups > 1;
  const auto run = [&](uint64_t begin, uint64_t end, Scratch& scratch) {
    std::vector<float> shift(bias == nullptr ? 0 : bias->width());
    for (uint64_t item = begin; item < end; ++item) {
      const uint64_t t = item / n_groups, g = item % n_groups;
      const uint64_t m = ids == nullptr ? g : matrix_of_id(ids->row(t)[g], n_matrices);
      const float* in = x.row(t) + (shared ? 0 : g * n_in);
      const float* b = bias == nullptr ? nullptr : bias->row(m, shift.data());
      for (uint64_t o = 0; o < n_out; ++o) {
        const float* row = w.row(m * n_out + o, scratch.floats.data());
        y.row(t)[g * n_out + o] =
            static_cast<float>(dot(in, row, n_in) + (b == nullptr ? 0 : b[o]));
      }
    }
  };
  if (x.n_rows > 0) call.step().workers().for_ranges(x.n_rows * n_groups, n_in * n_out, run);
}

void group_sum(const Matrix& x, const Matrix& shares, const Matrix& y) {
  for (uint64_t t = 0; t < y.n_rows; ++t) {
    for (uint64_t i = 0; i < y.width; ++i) {
      double sum = 0;
      for (uint64_t g = 0; g < shares.width; ++g) {
        sum += double{shares.row(t)[g]} * x.row(t)[g * y.width + i];
      }
      y.row(t)[i] = static_cast<float>(sum);
    }
  }
}

}  // namespace bp::reference

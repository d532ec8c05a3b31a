#include <cmath>
#include <numbers>

#include "kernels/kernels.hpp"

namespace bp::reference {

double activate(uint32_t activation, double x) {
  switch (activation) {
    case BP_ACT_SILU:
      return x / (1 + std::exp(-x));
    case BP_ACT_GELU:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case BP_ACT_GELU_TANH: {
      const double sqrt_2_over_pi = std::sqrt(2 / std::numbers::pi);
      return 0.5 * x * (1 + std::tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x)));
    }
    // Comparisons are written so that a NaN stays one.
    case BP_ACT_RELU:
      return x < 0 ? 0 : x;
    case BP_ACT_RELU2:
      return x < 0 ? 0 : x * x;
    case BP_ACT_SIGMOID:
      return 1 / (1 + std::exp(-x));
    case BP_ACT_TANH:
      return std::tanh(x);
    default:
      return x;
  }
}

double soft_cap(double cap, double x) {
  return cap * std::tanh(x / cap);
}

}  // namespace bp::reference

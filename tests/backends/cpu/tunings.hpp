#pragma once
// Kernels as each processor wants them whose measurements chose among ways.

#include <array>

#include "backends/cpu/cpu_features.hpp"

namespace bp::cpu {

inline std::array<Kernels, 3> kernels_by_tuning(Isa isa) {
  return {make_kernels(isa, Tuning::kZen5), make_kernels(isa, Tuning::kIntel),
          make_kernels(isa, Tuning::kZen4)};
}

}  // namespace bp::cpu

#pragma once
// The inner loops of the machine probe, for the widest vectors that this CPU has.

#include <cstddef>
#include <cstdint>

namespace bp::cli {

constexpr size_t kProbeAlignment = 4096;

// Loads every byte of [bytes, bytes + n), n a multiple of 1024, and returns a value that depends on
// all of them.
using ReadKernel = uint64_t (*)(const std::byte* bytes, uint64_t n);

// Independent chains of int8 dot products in registers. `seed` only keeps the compiler from knowing
// the operands.
struct DotKernel {
  uint64_t (*run)(uint64_t n_rounds, uint32_t seed);
  uint64_t operations_a_round;  // multiplications and additions
};

struct ProbeKernels {
  ReadKernel read;
  DotKernel dot;
};
ProbeKernels choose_probe_kernels();

}  // namespace bp::cli

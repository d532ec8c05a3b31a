// A fault on device 0, in the context that all of a process share.

#include <cuda_runtime.h>

#include "bench/cuda/fault.hpp"

namespace {

__global__ void fault() {
  asm("trap;");
}

}  // namespace

void bp::bench::break_device() {
  fault<<<1, 1>>>();
  static_cast<void>(cudaDeviceSynchronize());
}

#include <algorithm>

#include "backplane/plugin.hpp"
#include "kernels/kernels.hpp"

namespace bp::reference {

namespace {

// One worker's part of a place at a time; scratch as the kernel asks, from the heap: the
// interpreter does not count its allocations.
class ScratchMemory {
 public:
  explicit ScratchMemory(uint64_t n_bytes) : memory_(n_bytes == 0 ? 0 : n_bytes + kAlignment) {}
  [[nodiscard]] void* get() {
    if (memory_.empty()) return nullptr;
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<uint8_t> memory_;
};

}  // namespace

void run_kernel(const BoundKernel& kernel, const Workers& workers, const Matrix& x,
                const Matrix& y) {
  if (x.n_rows == 0) return;
  const auto n_parts = static_cast<uint32_t>(workers.n_workers());
  std::vector<ScratchMemory> scratch(n_parts, ScratchMemory(kernel.scratch_bytes(x.n_rows)));
  const auto run = [&](uint64_t begin, uint64_t end, Scratch&) {
    auto call = make_growable<bp_kernel_call>();
    call.n_rows = x.n_rows;
    call.x_stride = x.width;
    call.y_stride = y.width;
    call.x = x.data;
    call.y = y.data;
    for (uint64_t part = begin; part < end; ++part) {
      call.scratch = scratch[part].get();
      kernel.run(call, static_cast<uint32_t>(part), n_parts);
    }
  };
  workers.for_ranges(n_parts, x.n_rows * x.width * y.width / n_parts, run);
}

void norm(const OpCall& call, Place place, const Matrix& x, const bp_attr_norm& attributes,
          const WeightRows* weight, const WeightRows* bias, const Matrix& y) {
  if (const BoundKernel* kernel = call.kernel(place)) {
    std::vector<float> copy(x.data, x.data + x.n_rows * x.width);  // x may be y
    return run_kernel(*kernel, call.step().workers(), {copy.data(), x.n_rows, x.width}, y);
  }
  normalize(x, attributes.kind, attributes.eps, attributes.group, y);
  if (weight != nullptr || bias != nullptr) {
    scale_and_shift(y, weight, attributes.weight_offset, bias, y);
  }
}

void activate_all(const OpCall& call, uint32_t activation, const Matrix& x) {
  if (const BoundKernel* kernel = call.kernel(Place::kActivation)) {
    std::vector<float> copy(x.data, x.data + x.n_rows * x.width);
    return run_kernel(*kernel, call.step().workers(), {copy.data(), x.n_rows, x.width}, x);
  }
  for (float& value : x.all()) value = static_cast<float>(activate(activation, value));
}

}  // namespace bp::reference

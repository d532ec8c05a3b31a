#pragma once
// Kernels for single ops in C++: derive from KernelSet and Kernel, then
//   constexpr bp_op_kernels_factory kFactory = bp::op_kernels_factory<MyKernels>();
//   BP_PLUGIN("mine", "1.0.0", {BP_OP_KERNELS_ID, &kFactory});
// MyKernels needs a static function
//   Result<std::unique_ptr<KernelSet>> create(const Host&, std::string_view op, const Params&).

#include <memory>
#include <string_view>

#include "backplane/op_kernels.h"
#include "backplane/plugin.hpp"

namespace bp {

// Where kernels may compute part of an op.
class KernelPlace {
 public:
  explicit KernelPlace(const bp_kernel_place& place) : place_(place) {}

  [[nodiscard]] const bp_kernel_place& c() const { return place_; }
  [[nodiscard]] std::string_view op() const { return place_.op; }
  [[nodiscard]] std::string_view name() const { return place_.name; }
  // Zeros for an absent one.
  [[nodiscard]] bp_weight weight(uint32_t slot) const {
    return slot < place_.n_weights ? copy_growable(place_.weights[slot]) : bp_weight{};
  }
  // The values of a weight that is one part, as most are; nullptr for others.
  [[nodiscard]] const bp_weight_part* only_part(uint32_t slot) const {
    const bp_weight found = weight(slot);
    const bool plain = found.n_parts == 1 && found.required == 0;
    return plain && found.parts[0].role == BP_PART_DATA ? &found.parts[0] : nullptr;
  }

 private:
  const bp_kernel_place& place_;
};

// Prepared for one place.
class Kernel {
 public:
  virtual ~Kernel() = default;
  [[nodiscard]] virtual uint64_t scratch_bytes(uint64_t /*n_rows*/) const { return 0; }
  virtual Status run(const bp_kernel_call& call, uint32_t part, uint32_t n_parts) const = 0;
};

class KernelSet {
 public:
  virtual ~KernelSet() = default;
  [[nodiscard]] virtual bool accepts(const KernelPlace& place) const = 0;
  virtual Result<std::unique_ptr<Kernel>> prepare(const KernelPlace& place) = 0;
};

namespace detail {

template <class K>
struct KernelsAdapter {
  static KernelSet* cpp(bp_kernel_set* s) { return reinterpret_cast<KernelSet*>(s); }
  static const Kernel* cpp(const bp_kernel* k) { return reinterpret_cast<const Kernel*>(k); }

  static bp_status create(const bp_host* host, const char* op, const bp_params* config,
                          bp_kernel_set** out, bp_error* error) {
    return guarded(error, [&]() -> Status {
      BP_ASSIGN(std::unique_ptr<KernelSet> made, K::create(Host(host), op, Params(config)));
      *out = reinterpret_cast<bp_kernel_set*>(made.release());
      return {};
    });
  }
  static void destroy(bp_kernel_set* set) { delete cpp(set); }

  static int32_t accepts(bp_kernel_set* set, const bp_kernel_place* place) {
    bool accepted = false;
    const bp_status status = guarded(nullptr, [&]() -> Status {
      const bp_kernel_place mine = copy_growable(place);
      accepted = mine.required == 0 && cpp(set)->accepts(KernelPlace(mine));
      return {};
    });
    return status == BP_OK && accepted ? 1 : 0;
  }
  static bp_status prepare(bp_kernel_set* set, const bp_kernel_place* place, bp_kernel** out,
                           bp_error* error) {
    return guarded(error, [&]() -> Status {
      const bp_kernel_place mine = copy_growable(place);
      if (mine.required != 0) return unsupported("the place requires an unknown feature");
      BP_ASSIGN(std::unique_ptr<Kernel> made, cpp(set)->prepare(KernelPlace(mine)));
      *out = reinterpret_cast<bp_kernel*>(made.release());
      return {};
    });
  }
  static void release(bp_kernel* kernel) { delete cpp(kernel); }

  static uint64_t scratch_bytes(const bp_kernel* kernel, uint64_t n_rows) {
    return cpp(kernel)->scratch_bytes(n_rows);
  }
  static bp_status run(const bp_kernel* kernel, const bp_kernel_call* call, uint32_t part,
                       uint32_t n_parts, bp_error* error) {
    return guarded(error, [&]() -> Status {
      const bp_kernel_call mine = copy_growable(call);
      if (mine.required != 0) return unsupported("the call requires an unknown feature");
      return cpp(kernel)->run(mine, part, n_parts);
    });
  }
};

}  // namespace detail

template <class K>
[[nodiscard]] constexpr bp_op_kernels_factory op_kernels_factory() {
  using A = detail::KernelsAdapter<K>;
  return {sizeof(bp_op_kernels_factory),
          0,
          A::create,
          A::destroy,
          A::accepts,
          A::prepare,
          A::release,
          A::scratch_bytes,
          A::run};
}

}  // namespace bp

#include "backplane/reference/kernel_places.hpp"

namespace bp::reference {

namespace {

const bp_weight* weight_at(const ProgramView& program, const bp_op& op, uint32_t slot) {
  const uint32_t weight = slot_at(weight_slots(op), slot);
  return weight == BP_NONE ? nullptr : &program.weights()[weight];
}

uint64_t width_of(const ProgramView& program, uint32_t value) {
  return program.values()[value].width;
}

Place next(Place first, uint32_t i) {
  return static_cast<Place>(static_cast<uint32_t>(first) + i);
}

}  // namespace

Status KernelPlaces::bind(const ProgramView& program, const Overrides& overrides) {
  failure_ = overrides.failure();
  if (overrides.empty()) return {};
  for (const bp_op& op : program.ops()) BP_TRY(bind_op(program, overrides, op));
  return {};
}

Status KernelPlaces::keep(const bp_op& op, Place place, Result<BoundKernelPtr> kernel) {
  if (!kernel.ok()) return kernel.status();
  if (*kernel != nullptr) kernels_[{&op, place}] = std::move(*kernel);
  return {};
}

Status KernelPlaces::bind_op(const ProgramView& program, const Overrides& overrides,
                             const bp_op& op) {
  const std::string_view kind = kind_of(op);
  if (kind == BP_OP_QKV) return bind_qkv(program, overrides, op);
  if (kind == BP_OP_GATED_MLP) return bind_gated_mlp(program, overrides, op);
  if (kind == BP_OP_LINEAR || kind == BP_OP_MATMUL || kind == BP_OP_LM_HEAD) {
    BP_TRY(keep(
        op, Place::kProduct,
        overrides.linear(op, *weight_at(program, op, 0), 0, width_of(program, op.outputs[0]))));
  }
  if (kind == BP_OP_NORM) {
    return keep(op, Place::kNorm,
                overrides.norm(op, attributes_of<bp_attr_norm>(op), weight_at(program, op, 0),
                               weight_at(program, op, 1), width_of(program, op.outputs[0])));
  }
  if (kind == BP_OP_NORMALIZE) {
    const auto own = attributes_of<bp_attr_normalize>(op);
    auto a = make_growable<bp_attr_norm>();
    a.kind = own.kind, a.eps = own.eps, a.group = own.group;
    return keep(op, Place::kNorm,
                overrides.norm(op, a, nullptr, nullptr, width_of(program, op.outputs[0])));
  }
  const uint32_t activation = kind == BP_OP_LINEAR ? attributes_of<bp_attr_linear>(op).activation
                              : kind == BP_OP_ACTIVATE
                                  ? attributes_of<bp_attr_activate>(op).activation
                                  : BP_ACT_NONE;
  if (activation == BP_ACT_NONE) return {};
  return keep(op, Place::kActivation,
              overrides.activate(op, activation, width_of(program, op.outputs[0])));
}

Status KernelPlaces::bind_qkv(const ProgramView& program, const Overrides& overrides,
                              const bp_op& op) {
  const bool packed = weight_at(program, op, 1) == nullptr;
  const auto a = attributes_of<bp_attr_qkv>(op);
  auto norm = make_growable<bp_attr_norm>();
  norm.kind = a.norm_kind, norm.eps = a.norm_eps, norm.weight_offset = a.norm_weight_offset;
  norm.group = a.head_dim;
  uint64_t first = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const uint64_t n = width_of(program, op.outputs[i]);
    BP_TRY(keep(op, next(Place::kProduct, i),
                overrides.linear(op, *weight_at(program, op, packed ? 0 : i), first, n)));
    if (packed) first += n;
    const bp_weight* weight = i < 2 ? weight_at(program, op, 6 + i) : nullptr;
    if (weight == nullptr) continue;
    BP_TRY(keep(op, next(Place::kNorm, i), overrides.norm(op, norm, weight, nullptr, n)));
  }
  return {};
}

Status KernelPlaces::bind_gated_mlp(const ProgramView& program, const Overrides& overrides,
                                    const bp_op& op) {
  const bool packed = weight_at(program, op, 1) == nullptr;
  const bp_weight& down = *weight_at(program, op, 2);
  const uint64_t n_ff = data_part(down)->dims[1];
  BP_TRY(keep(op, Place::kProduct, overrides.linear(op, *weight_at(program, op, 0), 0, n_ff)));
  BP_TRY(
      keep(op, Place::kSecondProduct,
           overrides.linear(op, *weight_at(program, op, packed ? 0 : 1), packed ? n_ff : 0, n_ff)));
  BP_TRY(keep(op, Place::kThirdProduct,
              overrides.linear(op, down, 0, width_of(program, op.outputs[0]))));
  const uint32_t activation = attributes_of<bp_attr_gated_mlp>(op).activation;
  if (activation == BP_ACT_NONE) return {};
  return keep(op, Place::kActivation, overrides.activate(op, activation, n_ff));
}

}  // namespace bp::reference

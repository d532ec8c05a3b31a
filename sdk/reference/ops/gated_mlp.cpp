#include <vector>

#include "kernels/kernels.hpp"
#include "ops/ops.hpp"

namespace bp::reference {

Status run_gated_mlp(const OpCall& call) {
  const auto a = call.attributes<bp_attr_gated_mlp>();
  const Matrix x = call.input(0);
  const uint64_t n_ff = call.weight(2)->width();
  std::vector<float> gate_floats(x.n_rows * n_ff), up_floats(x.n_rows * n_ff);
  const Matrix gate{gate_floats.data(), x.n_rows, n_ff}, up{up_floats.data(), x.n_rows, n_ff};

  const bool packed = call.weight(1) == nullptr;
  const float* gate_bias = call.vector(3);
  const float* packed_up_bias = gate_bias == nullptr ? nullptr : gate_bias + n_ff;
  project(call, Place::kProduct, x, 0, 0, gate_bias, gate);
  project(call, Place::kSecondProduct, x, packed ? 0 : 1, packed ? n_ff : 0,
          packed ? packed_up_bias : call.vector(4), up);
  const bool is_activated = call.kernel(Place::kActivation) != nullptr;
  if (is_activated) activate_all(call, a.activation, gate);
  const uint32_t activation = is_activated ? BP_ACT_NONE : a.activation;
  for (uint64_t i = 0; i < gate_floats.size(); ++i) {
    gate.data[i] = static_cast<float>(activate(activation, gate.data[i]) * up.data[i]);
  }
  project(call, Place::kThirdProduct, gate, 2, 0, call.vector(5), call.output(0));
  return {};
}

}  // namespace bp::reference

// Products, norms and activations that other plugins' kernels compute. What is fused otherwise is
// taken apart here: rows are prepared in memory, each place is a stage, and one more finishes.

#include <algorithm>
#include <cstring>

#include "backends/cpu/plan/planner.hpp"
#include "backends/cpu/stages/kernel_stage.hpp"

namespace bp::cpu {

namespace {

// Whether nothing is done to a product but to store it.
bool is_product_alone(const MatmulSpec& spec, const Projection& projection) {
  return projection.bias == nullptr && !spec.gated && spec.activation == BP_ACT_NONE &&
         spec.scale == 1 && spec.softcap == 0 && !spec.residual;
}

}  // namespace

void Planner::add_kernel(BoundKernelPtr kernel, RowCount count, uint32_t in, uint32_t out) {
  add_stage<KernelStage>(std::move(kernel), count, in, out);
}

uint32_t Planner::stored_rows(const RowSource& source) {
  if (source.is_plain()) return source.buffer;
  const uint32_t out = add_buffer(source.count, source.width);
  store_rows(source, out);
  return out;
}

Result<bool> Planner::norm_by_kernel(const bp_op& op, const bp_attr_norm& attributes,
                                     const RowSource& source) {
  const auto weight = [&](uint32_t slot) {
    const uint32_t index = slot_at(weight_slots(op), slot);
    return index == BP_NONE ? nullptr : &program_.weights()[index];
  };
  BP_ASSIGN(BoundKernelPtr kernel,
            overrides_.norm(op, attributes, weight(0), weight(1), source.width));
  if (kernel == nullptr) return false;
  open(op.outputs[0]);
  add_kernel(std::move(kernel), source.count, source.buffer, *buffers_[op.outputs[0]]);
  return true;
}

Result<bool> Planner::head_norm_by_kernel(const bp_op& op, uint32_t i) {
  const auto a = attributes_of<bp_attr_qkv>(op);
  auto norm = make_growable<bp_attr_norm>();
  norm.kind = a.norm_kind, norm.eps = a.norm_eps, norm.weight_offset = a.norm_weight_offset;
  norm.group = a.head_dim;
  const uint32_t y = op.outputs[i];
  BP_ASSIGN(BoundKernelPtr kernel, overrides_.norm(op, norm, &program_.weights()[op.weights[6 + i]],
                                                   nullptr, value(y).width));
  if (kernel == nullptr) return false;
  const uint32_t in = *buffers_[y];
  open(y);
  add_kernel(std::move(kernel), count_of(y), in, *buffers_[y]);
  return true;
}

Result<bool> Planner::activate_by_kernel(const bp_op& op) {
  const uint32_t activation = attributes_of<bp_attr_activate>(op).activation;
  if (activation == BP_ACT_NONE) return false;
  BP_ASSIGN(BoundKernelPtr kernel, overrides_.activate(op, activation, value(op.inputs[0]).width));
  if (kernel == nullptr) return false;
  const uint32_t in = buffer_of(op.inputs[0]);
  open(op.outputs[0]);
  add_kernel(std::move(kernel), count_of(op.outputs[0]), in, *buffers_[op.outputs[0]]);
  return true;
}

Status Planner::add_products(const bp_op& op, MatmulSpec spec) {
  BoundKernelPtr activation;
  if (spec.activation != BP_ACT_NONE) {
    BP_ASSIGN(activation, overrides_.activate(op, spec.activation, spec.projections[0].n_rows));
  }
  const bool any_product = std::ranges::any_of(
      spec.projections, [](const Projection& p) { return p.kernel != nullptr; });
  if (activation == nullptr && !any_product) {
    add_stage<MatmulStage>(std::move(spec));
    return {};
  }
  const auto first_stage = static_cast<uint32_t>(plan_.stages.size());
  take_apart(std::move(spec), activation);
  for (size_t i = plan_.weights.size(); i-- > 0 && plan_.weight_stages[i] == first_stage;) {
    plan_.weight_last_stages[i] = static_cast<uint32_t>(plan_.stages.size() - 1);
  }
  return {};
}

void Planner::take_apart(MatmulSpec spec, const BoundKernelPtr& activation) {
  const RowCount count = spec.input.count;
  const uint32_t x = stored_rows(spec.input);
  std::vector<uint32_t> products;
  for (Projection& p : spec.projections) {
    const bool is_done = is_product_alone(spec, p);
    const uint32_t product = is_done ? p.out : add_buffer(count, p.n_rows);
    products.push_back(product);
    if (p.kernel != nullptr) {
      add_kernel(std::move(p.kernel), count, x, product);
      continue;
    }
    MatmulSpec plain;
    plain.input.buffer = x;
    plain.input.width = spec.input.width;
    plain.input.count = count;
    plain.projections.push_back({std::move(p.weight), nullptr, product, p.n_rows});
    add_stage<MatmulStage>(std::move(plain));
  }
  if (spec.gated) return finish_gated(spec, products, activation);
  for (size_t i = 0; i < products.size(); ++i) {
    const Projection& p = spec.projections[i];
    if (!is_product_alone(spec, p)) finish_product(spec, p, products[i], activation);
  }
}

// The buffer of activation(product + bias).
uint32_t Planner::activated(const BoundKernelPtr& kernel, RowCount count, uint32_t product,
                            const float* bias, uint32_t width) {
  if (bias != nullptr) {
    const uint32_t sum = add_buffer(count, width);
    add_rows(count, {product}, {sum}, [=](const StepContext& step, uint32_t r) {
      step.kernels->add(step.values[product].row(r), bias, step.values[sum].row(r), width);
    });
    product = sum;
  }
  const uint32_t out = add_buffer(count, width);
  add_kernel(kernel, count, product, out);
  return out;
}

void Planner::finish_product(const MatmulSpec& spec, const Projection& projection, uint32_t product,
                             const BoundKernelPtr& kernel) {
  const uint32_t out = projection.out, n = projection.n_rows;
  const bool is_activated = kernel != nullptr;
  if (is_activated) product = activated(kernel, spec.input.count, product, projection.bias, n);
  const float* bias = is_activated ? nullptr : projection.bias;
  const uint32_t activation = is_activated ? BP_ACT_NONE : spec.activation;
  const float scale = spec.scale, softcap = spec.softcap;
  const auto residual = spec.residual;
  std::vector<uint32_t> reads = {product};
  if (residual) reads.push_back(*residual);
  add_rows(spec.input.count, reads, {out}, [=](const StepContext& step, uint32_t r) {
    const Kernels& kernels = *step.kernels;
    float* y = step.values[out].row(r);
    std::memcpy(y, step.values[product].row(r), n * sizeof(float));
    if (bias != nullptr) kernels.add(y, bias, y, n);
    if (activation != BP_ACT_NONE) kernels.activate(activation, y, y, n);
    if (scale != 1) kernels.scale(y, scale, y, n);
    if (softcap != 0) kernels.softcap(y, softcap, y, n);
    if (residual) kernels.add(y, step.values[*residual].row(r), y, n);
  });
}

void Planner::finish_gated(const MatmulSpec& spec, std::span<const uint32_t> products,
                           const BoundKernelPtr& kernel) {
  const Projection& first = spec.projections[0];
  const uint32_t out = first.out, n = first.n_rows, up = products[1];
  const bool is_activated = kernel != nullptr;
  const uint32_t gate =
      is_activated ? activated(kernel, spec.input.count, products[0], first.bias, n) : products[0];
  const float* gate_bias = is_activated ? nullptr : first.bias;
  const float* up_bias = spec.projections[1].bias;
  const uint32_t activation = is_activated ? BP_ACT_NONE : spec.activation;
  add_rows(spec.input.count, {gate, up}, {out}, [=](const StepContext& step, uint32_t r) {
    const Kernels& kernels = *step.kernels;
    float* y = step.values[out].row(r);
    float* u = step.values[up].row(r);
    std::memcpy(y, step.values[gate].row(r), n * sizeof(float));
    if (gate_bias != nullptr) kernels.add(y, gate_bias, y, n);
    if (activation != BP_ACT_NONE) kernels.activate(activation, y, y, n);
    if (up_bias != nullptr) kernels.add(u, up_bias, u, n);
    kernels.multiply(y, u, y, n);
  });
}

}  // namespace bp::cpu

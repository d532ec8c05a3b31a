// What becomes of a weight once it is bound: of fewer bits, where the configuration wants that.

#include <algorithm>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "core/model/tensors.hpp"

namespace bp::model {

quantize::ModelShape TensorBinder::shape() const {
  // The largest of a hyper-parameter's values; 0 for one that the architecture lacks.
  const auto largest = [&](const char* name) {
    const auto value = scope_.find(name);
    int64_t most = 0;
    if (!value) return uint32_t{0};
    if (value->is_list()) {
      for (const Value& element : value->list())
        most = std::max(most, element.as_int().value_or(0));
    } else {
      most = value->as_int().value_or(0);
    }
    return static_cast<uint32_t>(std::clamp<int64_t>(most, 0, UINT32_MAX));
  };
  quantize::ModelShape shape;
  shape.architecture = architecture_.id;
  shape.n_layers = largest("n_layers");
  shape.heads_per_kv_head = largest("n_heads") / std::max(largest("n_kv_heads"), 1u);
  shape.n_experts = largest("n_experts");
  shape.has_output = std::ranges::any_of(architecture_.weights, [&](const WeightSpec& spec) {
    const auto gguf = names_of(spec, "gguf", -1);
    return std::ranges::count(gguf, "output.weight") > 0 &&
           std::ranges::any_of(names_of(spec, file_.dialect(), -1), [&](const std::string& name) {
             return file_.find_tensor(name) != nullptr;
           });
  });
  for (uint32_t layer = 0; layer < shape.n_layers; ++layer) {
    if (has_values(layer)) shape.value_layers.push_back(layer);
  }
  return shape;
}

bool TensorBinder::has_values(int64_t layer) const {
  return std::ranges::any_of(architecture_.weights, [&](const WeightSpec& spec) {
    const bool is_value = std::ranges::any_of(
        names_of(spec, "gguf", layer),
        [](const std::string& name) { return quantize::value_layer(name).has_value(); });
    return is_value && std::ranges::any_of(
                           names_of(spec, file_.dialect(), layer), [&](const std::string& name) {
                             return file_.find_tensor(replace_all(name, "{n}", "0")) != nullptr;
                           });
  });
}

Status TensorBinder::complete(const WeightSpec& spec, int64_t layer, uint32_t weight) {
  if (!completed_.insert(weight).second) return {};
  const bp_weight_part& part = parts_.weights[weight].parts[0];
  const bp_dtype dtype = wanted_type(spec, layer, weight);
  if (dtype != part.dtype) return quantise(weight, dtype);
  return progress_.add(product({part.dims, part.n_dims}));
}

bp_dtype TensorBinder::wanted_type(const WeightSpec& spec, int64_t layer, uint32_t weight) {
  const bp_weight_part& part = parts_.weights[weight].parts[0];
  if (quantize_.mixture == nullptr) return part.dtype;
  const auto gguf_names = names_of(spec, "gguf", layer);
  const std::string& name = gguf_names.empty() ? parts_.weights[weight].name : gguf_names[0];
  if (!quantize::is_quantised(name, part.n_dims)) return part.dtype;
  if (!shape_) shape_ = shape();
  const uint64_t width = part.dims[part.n_dims - 1];
  return quantize::choose_type(*quantize_.mixture, *shape_, name, width, part.n_dims > 2).dtype;
}

Status TensorBinder::quantise(uint32_t weight, bp_dtype dtype) {
  bp_weight_part& part = parts_.weights[weight].parts[0];
  const uint64_t width = part.dims[part.n_dims - 1];
  const uint64_t n_rows = product({part.dims, part.n_dims - 1});
  const auto bytes = std::make_shared<std::vector<uint8_t>>(n_rows * row_bytes(dtype, width));
  const quantize::Rows rows{part.dtype, part.data, part.row_stride_bytes, n_rows, width};
  const Status status =
      quantize::convert_rows(rows, dtype, {}, quantize_.threads, bytes->data(), &progress_);
  if (!status.ok()) {
    return status.with_context(
        fmt::format("{}: tensor '{}'", file_.path(), parts_.weights[weight].name));
  }
  free_source(weight);
  part.dtype = dtype;
  part.row_stride_bytes = row_bytes(dtype, width);
  part.file = BP_NONE;
  part.file_offset = 0;
  part.n_bytes = bytes->size();
  part.data = bytes->data();
  parts_.owned.emplace_back(bytes, part.data);
  return {};
}

void TensorBinder::free_source(uint32_t weight) {
  const Weight& replaced = parts_.weights[weight];
  const auto n_copies = std::erase_if(
      parts_.owned, [&](const auto& bytes) { return bytes.get() == replaced.parts[0].data; });
  if (n_copies > 0) return;
  const bp_tensor* tensor = file_.find_tensor(replaced.name);
  if (tensor != nullptr && bound_.contains(tensor)) file_.release(*tensor);
}

}  // namespace bp::model

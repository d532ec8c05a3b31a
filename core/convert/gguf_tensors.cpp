#include "core/convert/gguf_tensors.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "core/convert/gguf_parameters.hpp"
#include "core/model/rope_parameters.hpp"
#include "core/quantize/mixture.hpp"
#include "core/quantize/rows.hpp"

namespace bp::convert {

namespace {

using model::product;
using model::Value;

// Weights whose rows are those of heads that positions turn.
constexpr std::string_view kTurned[] = {"attn_q", "attn_k", "attn_q_bias", "attn_k_bias"};

// A row of numbers is as many rows of one.
uint64_t width_of(const bp_weight_part& part) {
  return part.n_dims > 1 ? part.dims[part.n_dims - 1] : 1;
}

uint64_t rows_in(const bp_weight_part& part) {
  return product({part.dims, part.n_dims}) / width_of(part);
}

uint64_t stride_of(const bp_weight_part& part) {
  return part.n_dims > 1 ? part.row_stride_bytes : row_bytes(part.dtype, 1);
}

// A convolution's channel that is one is left out.
std::vector<uint64_t> without_middle_one(std::vector<uint64_t> dims) {
  if (dims.size() == 3 && dims[1] == 1) dims.erase(dims.begin() + 1);
  return dims;
}

// rows kept by `made_by` of all `rows`.
Result<std::vector<const std::byte*>> selected(const model::Selection& selection,
                                               const std::vector<const std::byte*>& rows,
                                               const model::Scope& scope) {
  BP_ASSIGN(const int64_t every, selection.every.integer(scope));
  BP_ASSIGN(const int64_t first, selection.first.integer(scope));
  BP_ASSIGN(const int64_t n, selection.n.integer(scope));
  if (every <= 0 || first < 0 || n <= 0 || first > every - n ||
      rows.size() % static_cast<size_t>(every) != 0) {
    return selection.place.error(
        fmt::format("{} of every {} from {} do not fit {} rows", n, every, first, rows.size()));
  }
  std::vector<const std::byte*> out;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto at = static_cast<int64_t>(r) % every;
    if (at >= first && at < first + n) out.push_back(rows[r]);
  }
  return out;
}

void transpose(const std::vector<std::byte>& from, uint64_t n_matrices, uint64_t n_rows,
               uint64_t n_columns, uint64_t element_bytes, std::byte* out) {
  for (uint64_t m = 0; m < n_matrices; ++m) {
    const uint64_t base = m * n_rows * n_columns;
    for (uint64_t r = 0; r < n_rows; ++r) {
      for (uint64_t c = 0; c < n_columns; ++c) {
        std::memcpy(out + (base + c * n_rows + r) * element_bytes,
                    from.data() + (base + r * n_columns + c) * element_bytes, element_bytes);
      }
    }
  }
}

}  // namespace

GgufTensors::GgufTensors(model::ModelFile& file, const model::ArchitectureChoice& choice,
                         model::ModelScope& scope, const bp_threads* threads)
    : file_(file),
      choice_(choice),
      scope_(scope),
      threads_(threads),
      norm_offsets_(norm_offsets(choice.architecture)) {}

Status GgufTensors::bind(int64_t layer, model::Binding binding) {
  if (layer_ && layer_->index == layer && layer_->binding == binding) {
    scope_.weights = &layer_->weights;
    return {};
  }
  // Of shapes the binder is kept, which in the end knows what no layer took.
  if (!layer_ || layer_->binding != binding || binding == model::Binding::kData) {
    if (layer_) layer_->binder->release();
    layer_.emplace(Layer{layer, {}, {}, binding, std::nullopt});
    layer_->binder.emplace(file_, choice_, scope_, layer_->parts, model::QuantizeAtLoad{}, binding);
  }
  layer_->index = layer;
  layer_->weights = layer < 0 ? std::map<std::string, uint32_t>() : model_weights_;
  if (layer >= 0) {
    scope_.values["i"] = layer;
  } else {
    scope_.values.erase("i");
  }
  BP_TRY(layer_->binder->bind(layer, layer_->weights));
  if (layer < 0) model_weights_ = layer_->weights;
  return {};
}

const bp_weight_part* GgufTensors::part_of(const std::string& weight) const {
  const auto found = layer_->weights.find(weight);
  if (found == layer_->weights.end() || found->second == BP_NONE) return nullptr;
  return &layer_->parts.weights[found->second].parts[0];
}

bool GgufTensors::is_taken_apart(const std::string& weight) const {
  return std::ranges::any_of(choice_.architecture.weights,
                             [&](const model::WeightSpec& spec) { return spec.made_of == weight; });
}

Result<std::vector<GgufTensor>> GgufTensors::plan(int64_t n_layers, const std::string& pairing,
                                                  const model::Scope& written) {
  const auto names = gguf_names(file_, choice_.architecture, n_layers);
  BP_TRY(check_places(names, n_layers));
  auto begin = names.begin();
  for (int64_t layer = -1; layer < n_layers; ++layer) {
    BP_TRY(bind(layer, model::Binding::kShapes));
    const auto end =
        std::find_if(begin, names.end(), [&](const auto& w) { return w.layer != layer; });
    BP_TRY(plan_layer({begin, end}, pairing, written));
    begin = end;
  }
  BP_TRY(layer_->binder->check_scales());
  unused_ = layer_->binder->unused();
  std::vector<GgufTensor> tensors;
  for (const Planned& planned : planned_) tensors.push_back(planned.tensor);
  return tensors;
}

// Whether each weight of the source is in one of the tensors that are written, in every layer.
Status GgufTensors::check_places(const std::vector<NamedWeight>& names, int64_t n_layers) const {
  std::set<std::string_view> written;
  for (const NamedWeight& name : names) written.insert(name.gguf);
  for (const model::WeightSpec& spec : choice_.architecture.weights) {
    const bool is_part = is_taken_apart(spec.name) ||
                         std::ranges::any_of(choice_.architecture.weights, [&](const auto& other) {
                           return std::ranges::count(other.packs, spec.name) > 0;
                         });
    for (int64_t layer = 0; !is_part && layer < (spec.per_layer ? n_layers : 1); ++layer) {
      BP_TRY(check_place(spec, layer, written));
    }
  }
  return {};
}

Status GgufTensors::check_place(const model::WeightSpec& spec, int64_t layer,
                                const std::set<std::string_view>& written) const {
  const auto own = spec.sources.find(file_.dialect()), gguf = spec.sources.find("gguf");
  if (own == spec.sources.end()) return {};
  const auto named = [&](const std::string& name) {
    return model::replace_all(name, "{i}", std::to_string(layer));
  };
  const bool has_place = gguf != spec.sources.end() &&
                         std::ranges::any_of(gguf->second, [&](const model::TensorSource& place) {
                           return !place.arrangement || written.contains(named(place.name));
                         });
  for (const model::TensorSource& source : own->second) {
    const std::string name = model::replace_all(named(source.name), "{n}", "0");
    if (has_place || file_.find_tensor(name) == nullptr) continue;
    return unsupported(fmt::format("{}: GGUF files of {} have no place for '{}'", file_.path(),
                                   choice_.architecture.id, name));
  }
  return {};
}

Status GgufTensors::plan_layer(std::span<const NamedWeight> names, const std::string& pairing,
                               const model::Scope& written) {
  const auto own_pairing = scope_.find("rope_pairing");
  const bool turns = own_pairing && own_pairing->as_string() != nullptr && !pairing.empty() &&
                     *own_pairing->as_string() != pairing;
  for (const NamedWeight& weight : names) {
    const model::WeightSpec& spec = *weight.spec;
    if (weight.source.empty() && spec.made_of.empty()) {
      BP_TRY(plan_values(weight));
      continue;
    }
    const bp_weight_part* part = part_of(spec.made_of.empty() ? spec.name : spec.made_of);
    if (part == nullptr || is_taken_apart(spec.name)) continue;
    Planned planned{weight, {weight.gguf, BP_DTYPE_F32, {}}};
    planned.turns = turns && std::ranges::count(kTurned, spec.name) > 0;
    if (planned.turns && pairing != "pairs") {
      return unsupported(fmt::format("{}: heads in pairs have no place in GGUF files of {}",
                                     file_.path(), choice_.architecture.id));
    }
    if (const auto offset = norm_offsets_.find(spec.name); offset != norm_offsets_.end()) {
      BP_ASSIGN(const double before, offset->second.number(scope_));
      BP_ASSIGN(const double after, offset->second.number(written));
      planned.added = static_cast<float>(before - after);
    }
    uint64_t n_rows = rows_in(*part);
    for (const std::string& packed : spec.packs) {
      const bp_weight_part* more = part_of(packed);
      if (more == nullptr) continue;
      if (more->dtype != part->dtype || width_of(*more) != width_of(*part)) {
        return unsupported(fmt::format("{}: {} and {} of layer {} differ in type", file_.path(),
                                       spec.name, packed, weight.layer));
      }
      n_rows += rows_in(*more);
    }
    BP_TRY(add(std::move(planned), *part, n_rows));
  }
  return {};
}

// As the file groups the elements, which readers of GGUF expect.
std::vector<uint64_t> GgufTensors::source_dims(const NamedWeight& weight) const {
  const bp_tensor* tensor = file_.find_tensor(model::replace_all(weight.source, "{n}", "0"));
  if (tensor == nullptr || weight.found == nullptr) return {};
  if (!weight.found->arrangement) return {tensor->dims, tensor->dims + tensor->n_dims};
  const model::Arrangement& a = *weight.found->arrangement;
  const auto n = a.stack ? a.stack->integer(scope_) : Result<int64_t>(0);
  if (a.transpose || !a.rows.empty() || a.columns || !n.ok()) return {};
  std::vector<uint64_t> dims;
  if (a.stack) dims.push_back(static_cast<uint64_t>(*n));
  dims.insert(dims.end(), tensor->dims, tensor->dims + tensor->n_dims);
  return dims;
}

Status GgufTensors::add(Planned planned, const bp_weight_part& part, uint64_t n_rows) {
  const auto& made_by = planned.weight.spec->made_by;
  std::vector<uint64_t> dims;
  if (made_by) {
    for (const auto& dim : planned.weight.spec->shape) {
      BP_ASSIGN(const int64_t n, dim.integer(scope_));
      dims.push_back(static_cast<uint64_t>(n));
    }
  } else if (n_rows != rows_in(part)) {
    dims = part.n_dims > 1 ? std::vector<uint64_t>{n_rows, width_of(part)}
                           : std::vector<uint64_t>{n_rows};
  } else {
    dims = source_dims(planned.weight);
    if (product(dims) != product({part.dims, part.n_dims})) {
      dims.assign(part.dims, part.dims + part.n_dims);
    }
  }
  planned.tensor.dims = without_middle_one(std::move(dims));
  const bool is_matrix = quantize::is_quantised(planned.tensor.name, planned.tensor.dims.size());
  const bool is_split = made_by && made_by->transpose && is_block_quantised(part.dtype);
  if (is_matrix && !is_split && planned.added == 0) planned.tensor.dtype = part.dtype;
  if (!planned_names_.insert(planned.tensor.name).second) {
    return unsupported(fmt::format("{}: two weights of layer {} would be '{}' in a GGUF file",
                                   file_.path(), planned.weight.layer, planned.tensor.name));
  }
  planned_.push_back(std::move(planned));
  return {};
}

// Numbers of the configuration, or what a rotary scaling divides frequencies by.
Status GgufTensors::plan_values(const NamedWeight& weight) {
  if (weight.spec->values) {
    BP_ASSIGN(const Value value, weight.spec->values->evaluate(scope_));
    std::vector<float> values;
    for (const Value& element : value.is_list() ? value.list() : model::List()) {
      values.push_back(static_cast<float>(element.as_number().value_or(0)));
    }
    if (!values.empty()) given_[weight.spec->name] = std::move(values);
  }
  const auto given = given_.find(weight.spec->name);
  if (given == given_.end()) return {};
  planned_.push_back({weight, {weight.gguf, BP_DTYPE_F32, {given->second.size()}}});
  return {};
}

Status GgufTensors::turn(std::vector<const std::byte*>& rows) const {
  const auto integer = [&](const char* name) -> size_t {
    const auto value = scope_.find(name);
    return static_cast<size_t>(std::max<int64_t>(value ? value->as_int().value_or(0) : 0, 0));
  };
  const size_t head = integer("head_dim"), turned = integer("rope_dims");
  if (head == 0 || turned > head || turned % 2 != 0 || rows.size() % head != 0) {
    return internal_error(fmt::format("{} rows are no heads of {}", rows.size(), head));
  }
  const auto halves = rows;
  for (size_t first = 0; first < rows.size(); first += head) {
    for (size_t j = 0; j < turned / 2; ++j) {
      rows[first + 2 * j] = halves[first + j];
      rows[first + 2 * j + 1] = halves[first + turned / 2 + j];
    }
  }
  return {};
}

Result<std::vector<const std::byte*>> GgufTensors::rows_of(const Planned& planned) const {
  const model::WeightSpec& spec = *planned.weight.spec;
  std::vector<std::string> weights{spec.made_of.empty() ? spec.name : spec.made_of};
  weights.insert(weights.end(), spec.packs.begin(), spec.packs.end());
  std::vector<const std::byte*> rows;
  for (const std::string& name : weights) {
    const bp_weight_part* part = part_of(name);
    if (part == nullptr) continue;
    const auto* data = static_cast<const std::byte*>(part->data);
    for (uint64_t r = 0; r < rows_in(*part); ++r) rows.push_back(data + r * stride_of(*part));
  }
  if (planned.turns) BP_TRY(turn(rows));
  if (spec.made_by && !spec.made_by->rows.empty()) {
    return selected(spec.made_by->rows[0], rows, scope_);
  }
  return rows;
}

Status GgufTensors::make(size_t i, void* out) {
  const Planned& planned = planned_[i];
  if (const auto given = given_.find(planned.weight.spec->name); given != given_.end()) {
    std::memcpy(out, given->second.data(), given->second.size() * sizeof(float));
    return {};
  }
  const model::WeightSpec& spec = *planned.weight.spec;
  BP_TRY(bind(planned.weight.layer, model::Binding::kData));
  const bp_weight_part& part = *part_of(spec.made_of.empty() ? spec.name : spec.made_of);
  BP_ASSIGN(const auto rows, rows_of(planned));
  const uint64_t width = width_of(part), n_bytes = row_bytes(part.dtype, width);
  const bool is_transposed = spec.made_by && spec.made_by->transpose;
  const bool is_converted = planned.tensor.dtype != part.dtype;
  std::vector<std::byte> bytes(is_transposed || is_converted ? rows.size() * n_bytes : 0);
  auto* joined = bytes.empty() ? static_cast<std::byte*>(out) : bytes.data();
  for (size_t r = 0; r < rows.size(); ++r) std::memcpy(joined + r * n_bytes, rows[r], n_bytes);
  const uint64_t n = rows.size() * width;
  if (is_converted) {
    std::vector<std::byte> floats(is_transposed ? n * sizeof(float) : 0);
    const quantize::Rows from{part.dtype, joined, n_bytes, rows.size(), width};
    BP_TRY(quantize::convert_rows(from, BP_DTYPE_F32, {}, threads_,
                                  is_transposed ? floats.data() : out));
    bytes = std::move(floats);
  }
  if (is_transposed) {
    const auto& dims = planned.tensor.dims;
    const uint64_t n_columns = dims[dims.size() - 2], n_rows = dims.back();
    transpose(bytes, n / (n_rows * n_columns), n_rows, n_columns,
              dtype_info(planned.tensor.dtype).block_bytes, static_cast<std::byte*>(out));
  }
  auto* values = static_cast<float*>(out);
  for (uint64_t k = 0; planned.added != 0 && k < n; ++k) values[k] += planned.added;
  return {};
}

}  // namespace bp::convert

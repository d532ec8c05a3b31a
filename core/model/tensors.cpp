#include "core/model/tensors.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"

namespace bp::model {

namespace {

// Types whose elements are numbers with a fraction.
bool is_weight_type(bp_dtype type) {
  return type < BP_DTYPE_I8 || type > BP_DTYPE_I64;
}

// Whether `text` matches `pattern`, in which `*` stands for any text.
bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches(rest, text.substr(at))) return true;
  }
  return false;
}

// Likewise; `{past}` stands for the number of a layer that the model does not have.
bool matches_past(std::string_view pattern, std::string_view text, uint64_t n_layers) {
  constexpr std::string_view kPast = "{past}";
  const size_t at = pattern.find(kPast);
  if (at == std::string_view::npos) return matches(pattern, text);
  if (!text.starts_with(pattern.substr(0, at))) return false;
  uint64_t layer = 0;
  const char* end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + at, end, layer);
  if (number.ec != std::errc() || layer < n_layers) return false;
  return matches(pattern.substr(at + kPast.size()), text.substr(number.ptr - text.data()));
}

// The weight whose scale a tensor of this name would be, or "": X.weight of X.scale, as NVFP4 has
// them in GGUF files; of a longer name, as 8-bit floats have them elsewhere, what it is added to.
std::string scaled_weight(std::string_view name) {
  constexpr std::string_view kScale = ".scale";
  constexpr std::string_view kAdded[] = {"_scale", "_scales", "_scale_inv", "_scale_2"};
  if (name.ends_with(kScale)) {
    return std::string(name.substr(0, name.size() - kScale.size())) + ".weight";
  }
  for (const std::string_view added : kAdded) {
    if (name.ends_with(added)) return std::string(name.substr(0, name.size() - added.size()));
  }
  return "";
}

// Whether both are the same rows otherwise counted, or one of them is a row that holds the other's
// rows one after another.
bool is_regrouped(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  const auto elements = [](std::span<const uint64_t> dims) {
    double n = 1;
    for (const uint64_t dim : dims) n *= static_cast<double>(dim);
    return n;
  };
  const bool comparable = a.back() == b.back() || a.size() == 1 || b.size() == 1;
  return comparable && elements(a) == elements(b);
}

uint64_t n_elements(const ModelFile& file) {
  uint64_t n = 0;
  for (const bp_tensor& tensor : file.tensors()) n += product(dims_of(tensor));
  return n;
}

}  // namespace

std::string unused_text(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<ptrdiff_t>(std::min(kShown, names.size())));
  const std::string rest =
      names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : std::string();
  return fmt::format("tensors that the architecture does not use: {}{}", fmt::join(first, ", "),
                     rest);
}

TensorBinder::TensorBinder(ModelFile& file, const ArchitectureChoice& choice, ModelScope& scope,
                           ProgramParts& parts, const QuantizeAtLoad& quantize, Binding binding,
                           const bp_progress* progress)
    : file_(file),
      architecture_(choice.architecture),
      scope_(scope),
      parts_(parts),
      quantize_(quantize),
      binding_(binding),
      progress_(progress, n_elements(file)) {}

Status TensorBinder::bind(int64_t layer, std::map<std::string, uint32_t>& weights) {
  scope_.weights = &weights;
  for (const WeightSpec& spec : architecture_.weights) {
    if (spec.per_layer == (layer >= 0)) BP_TRY(bind_one(spec, layer, weights));
  }
  for (const bp_tensor* tensor : let_go_later_) {
    if (bound_.at(tensor) == BP_NONE) file_.release(*tensor);
  }
  let_go_later_.clear();
  return {};
}

std::vector<std::string> TensorBinder::names_of(const WeightSpec& spec, std::string_view dialect,
                                                int64_t layer) const {
  std::vector<std::string> names;
  const auto found = spec.sources.find(dialect);
  if (found == spec.sources.end()) return names;
  for (const TensorSource& source : found->second) {
    names.push_back(replace_all(source.name, "{i}", std::to_string(layer)));
  }
  return names;
}

Status TensorBinder::bind_one(const WeightSpec& spec, int64_t layer,
                              std::map<std::string, uint32_t>& weights) {
  const auto names = names_of(spec, file_.dialect(), layer);
  for (size_t k = 0; k < names.size(); ++k) {
    const std::string& name = names[k];
    const auto& arrangement = spec.sources.find(file_.dialect())->second[k].arrangement;
    if (arrangement) {
      BP_ASSIGN(weights[spec.name], bind_arranged(spec, *arrangement, name, layer));
    } else if (const bp_tensor* tensor = file_.find_tensor(name)) {
      BP_ASSIGN(weights[spec.name], bind_tensor(spec, *tensor));
    } else {
      continue;
    }
    if (weights[spec.name] != BP_NONE) return complete(spec, layer, weights[spec.name]);
  }
  weights[spec.name] = BP_NONE;
  if (!spec.fallback.empty()) {
    const auto other = weights.find(spec.fallback);
    if (other == weights.end()) {
      return spec.place.error(
          fmt::format("fallback '{}' is no weight declared before", spec.fallback));
    }
    weights[spec.name] = other->second;
  }
  if (weights[spec.name] != BP_NONE) return {};
  if (spec.optional) {
    BP_ASSIGN(const bool optional, spec.optional->condition(scope_));
    if (optional) return {};
  }
  return invalid_argument(fmt::format(
      "{}: missing tensor for weight {} ({}); names tried: {}", file_.path(), spec.name,
      spec.place.place(), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

Result<std::vector<uint64_t>> TensorBinder::expected_dims(const WeightSpec& spec) const {
  std::vector<uint64_t> dims;
  for (const PlacedExpression& dim : spec.shape) {
    BP_ASSIGN(const int64_t n, dim.integer(scope_));
    dims.push_back(static_cast<uint64_t>(n));
  }
  return dims;
}

Result<std::vector<uint64_t>> TensorBinder::check(const WeightSpec& spec, const std::string& tensor,
                                                  bp_dtype dtype,
                                                  std::span<const uint64_t> found) const {
  const std::string what = fmt::format("{}: tensor '{}' (weight {}, {})", file_.path(), tensor,
                                       spec.name, spec.place.place());
  BP_ASSIGN(auto expected, expected_dims(spec));
  if (!is_weight_type(dtype)) {
    return invalid_argument(
        fmt::format("{} has type {}, which no weight has", what, dtype_name(dtype)));
  }
  const bool has_shape = !found.empty();
  if (has_shape && (std::ranges::equal(expected, found) || is_regrouped(expected, found))) {
    return expected;
  }
  std::vector<std::string> texts;
  for (const PlacedExpression& dim : spec.shape) {
    const std::string& text = dim.expression.text();
    texts.push_back(text.substr(std::min(text.find_first_not_of(' '), text.size())));
  }
  return invalid_argument(fmt::format("{} has shape {}, expected [{}] = {}", what, dims_text(found),
                                      fmt::join(texts, ", "), dims_text(expected)));
}

Result<uint32_t> TensorBinder::bind_tensor(const WeightSpec& spec, const bp_tensor& tensor) {
  BP_ASSIGN(const auto dims,
            check(spec, std::string(view(tensor.name)), tensor.dtype, dims_of(tensor)));
  return add(tensor, dims);
}

Result<uint32_t> TensorBinder::bind_arranged(const WeightSpec& spec, const Arrangement& arrangement,
                                             const std::string& name, int64_t layer) {
  int64_t n_parts = 1;
  if (arrangement.stack) {
    BP_ASSIGN(n_parts, arrangement.stack->integer(scope_));
  }
  std::vector<const bp_tensor*> parts;
  for (int64_t n = 0; n < n_parts; ++n) {
    const std::string part = replace_all(name, "{n}", std::to_string(n));
    const bp_tensor* tensor = file_.find_tensor(part);
    if (tensor == nullptr && n == 0) return BP_NONE;
    if (tensor == nullptr) {
      return invalid_argument(fmt::format("{}: missing tensor '{}' for weight {} ({})",
                                          file_.path(), part, spec.name, spec.place.place()));
    }
    parts.push_back(tensor);
  }
  if (parts.empty()) return BP_NONE;
  const auto tensor = arranged(arrangement, parts);
  for (const bp_tensor* part : parts) let_go(*part, layer);
  if (!tensor.ok()) {
    return tensor.status().with_context(fmt::format("{}: tensor '{}' (weight {}, {})", file_.path(),
                                                    name, spec.name, spec.place.place()));
  }
  BP_ASSIGN(const auto dims, check(spec, name, tensor->shape.dtype, tensor->shape.dims));
  return add(name, *tensor, dims);
}

Result<ArrangedTensor> TensorBinder::arranged(const Arrangement& arrangement,
                                              const std::vector<const bp_tensor*>& parts) {
  for (const bp_tensor* part : parts) bound_.emplace(part, BP_NONE);
  if (binding_ == Binding::kShapes) {
    BP_ASSIGN(auto shape, arranged_shape(arrangement, parts, scope_));
    return ArrangedTensor{std::move(shape), std::make_shared<const std::vector<uint8_t>>()};
  }
  std::vector<TensorData> data;
  for (const bp_tensor* part : parts) {
    BP_ASSIGN(const TensorData of_part, file_.data(*part, &progress_));
    data.push_back(of_part);
  }
  return arrange(arrangement, data, scope_);
}

void TensorBinder::let_go(const bp_tensor& tensor, int64_t layer) {
  const auto has_it = [&](const WeightSpec& spec) {
    return std::ranges::count(names_of(spec, file_.dialect(), layer), view(tensor.name)) > 0;
  };
  if (std::ranges::count_if(architecture_.weights, has_it) > 1) {
    let_go_later_.push_back(&tensor);
  } else if (bound_.at(&tensor) == BP_NONE) {
    file_.release(tensor);
  }
}

Result<uint32_t> TensorBinder::add(const bp_tensor& tensor, std::span<const uint64_t> dims) {
  const auto it = bound_.find(&tensor);
  if (it != bound_.end() && it->second != BP_NONE) return it->second;
  const bool mapped = tensor.offset != BP_NO_OFFSET;
  const uint64_t width = tensor.dims[tensor.n_dims - 1];
  const uint64_t row_stride = mapped ? tensor.row_stride_bytes : row_bytes(tensor.dtype, width);
  TensorData data{&tensor, nullptr, row_stride, tensor.n_bytes};
  if (binding_ == Binding::kData) {
    BP_ASSIGN(data, file_.data(tensor, &progress_));
  }
  const bool same_rows = dims.back() == width;
  if (!same_rows && data.row_stride_bytes != row_bytes(tensor.dtype, width)) {
    return invalid_argument(fmt::format("{}: tensor '{}' has gaps between its rows, expected one",
                                        file_.path(), view(tensor.name)));
  }
  bp_weight_part part{};
  part.role = BP_PART_DATA;
  part.dtype = tensor.dtype;
  part.n_dims = static_cast<uint32_t>(dims.size());
  part.file = mapped ? tensor.file : BP_NONE;
  std::ranges::copy(dims, part.dims);
  part.row_stride_bytes = same_rows ? data.row_stride_bytes : row_bytes(tensor.dtype, dims.back());
  part.file_offset = mapped ? tensor.offset : 0;
  part.n_bytes = data.n_bytes;
  part.data = data.data;
  const uint32_t index = parts_.add_weight({std::string(view(tensor.name)), {part}});
  bound_[&tensor] = index;
  return index;
}

uint32_t TensorBinder::add(const std::string& name, const ArrangedTensor& tensor,
                           std::span<const uint64_t> dims) {
  bp_weight_part part{};
  part.role = BP_PART_DATA;
  part.dtype = tensor.shape.dtype;
  part.n_dims = static_cast<uint32_t>(dims.size());
  part.file = BP_NONE;
  std::ranges::copy(dims, part.dims);
  part.row_stride_bytes = row_bytes(part.dtype, dims.back());
  part.n_bytes = tensor.bytes->size();
  part.data = tensor.bytes->data();
  parts_.owned.emplace_back(tensor.bytes, part.data);
  return parts_.add_weight({name, {part}});
}

void TensorBinder::release() {
  for (const auto& [tensor, weight] : bound_) file_.release(*tensor);
}

bool TensorBinder::is_ignored(std::string_view name) const {
  const auto patterns = architecture_.ignored.find(file_.dialect());
  if (patterns == architecture_.ignored.end()) return false;
  const auto value = scope_.find("n_layers");
  const auto n_layers = static_cast<uint64_t>(value ? value->as_int().value_or(0) : 0);
  return std::ranges::any_of(patterns->second, [&](const std::string& pattern) {
    return matches_past(pattern, name, n_layers);
  });
}

std::vector<std::string> TensorBinder::unused() const {
  std::vector<std::string> names;
  for (const bp_tensor& tensor : file_.tensors()) {
    const std::string_view name = view(tensor.name);
    if (bound_.count(&tensor) == 0 && !is_ignored(name)) names.emplace_back(name);
  }
  return names;
}

Status TensorBinder::check_scales() const {
  for (const bp_tensor& scale : file_.tensors()) {
    const std::string_view name = view(scale.name);
    const std::string weight = scaled_weight(name);
    if (weight.empty() || bound_.contains(&scale)) continue;
    const bp_tensor* tensor = file_.find_tensor(weight);
    if (tensor == nullptr || !bound_.contains(tensor) || is_ignored(name)) continue;
    return unsupported(
        fmt::format("{}: tensor '{}' scales '{}', which is not supported; use a file in another "
                    "type, whose weights need none",
                    file_.path(), name, weight));
  }
  return {};
}

}  // namespace bp::model

#include "core/model/tensors.hpp"

#include <algorithm>

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

}  // namespace

Status TensorBinder::bind(int64_t layer, std::map<std::string, uint32_t>& weights) {
  scope_.weights = &weights;
  for (const WeightSpec& spec : architecture_.weights) {
    if (spec.per_layer == (layer >= 0)) BP_TRY(bind_one(spec, layer, weights));
  }
  return {};
}

std::vector<std::string> TensorBinder::names_of(const WeightSpec& spec, int64_t layer) const {
  std::vector<std::string> names;
  const auto found = spec.tensors.find(file_.dialect());
  if (found == spec.tensors.end()) return names;
  for (const std::string& name : found->second) {
    names.push_back(replace_all(name, "{i}", std::to_string(layer)));
  }
  return names;
}

Status TensorBinder::bind_one(const WeightSpec& spec, int64_t layer,
                              std::map<std::string, uint32_t>& weights) {
  const auto names = names_of(spec, layer);
  for (const std::string& name : names) {
    const bp_tensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) continue;
    BP_TRY(check(spec, *tensor));
    BP_ASSIGN(weights[spec.name], add(*tensor));
    return {};
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

Status TensorBinder::check(const WeightSpec& spec, const bp_tensor& tensor) const {
  const std::string what = fmt::format("{}: tensor '{}' (weight {}, {})", file_.path(),
                                       view(tensor.name), spec.name, spec.place.place());
  std::vector<uint64_t> expected;
  std::vector<std::string> texts;
  for (const PlacedExpression& dim : spec.shape) {
    BP_ASSIGN(const int64_t n, dim.integer(scope_));
    expected.push_back(static_cast<uint64_t>(n));
    const std::string& text = dim.expression.text();
    texts.push_back(text.substr(std::min(text.find_first_not_of(' '), text.size())));
  }
  const auto found = dims_of(tensor);
  if (!std::equal(expected.begin(), expected.end(), found.begin(), found.end())) {
    return invalid_argument(fmt::format("{} has shape {}, expected [{}] = {}", what,
                                        dims_text(found), fmt::join(texts, ", "),
                                        dims_text(expected)));
  }
  if (is_weight_type(tensor.dtype)) return {};
  return invalid_argument(
      fmt::format("{} has type {}, which no weight has", what, dtype_name(tensor.dtype)));
}

Result<uint32_t> TensorBinder::add(const bp_tensor& tensor) {
  if (const auto it = bound_.find(&tensor); it != bound_.end()) return it->second;
  BP_ASSIGN(const TensorData data, file_.data(tensor));
  const bool mapped = tensor.offset != BP_NO_OFFSET;
  bp_weight_part part{};
  part.role = BP_PART_DATA;
  part.dtype = tensor.dtype;
  part.n_dims = tensor.n_dims;
  part.file = mapped ? tensor.file : BP_NONE;
  std::copy_n(tensor.dims, tensor.n_dims, part.dims);
  part.row_stride_bytes = data.row_stride_bytes;
  part.file_offset = mapped ? tensor.offset : 0;
  part.n_bytes = data.n_bytes;
  part.data = data.data;
  const uint32_t index = parts_.add_weight({std::string(view(tensor.name)), {part}});
  bound_.emplace(&tensor, index);
  return index;
}

bool TensorBinder::is_ignored(std::string_view name) const {
  const auto patterns = architecture_.ignored.find(file_.dialect());
  if (patterns == architecture_.ignored.end()) return false;
  return std::any_of(patterns->second.begin(), patterns->second.end(),
                     [&](const std::string& pattern) { return matches(pattern, name); });
}

std::vector<std::string> TensorBinder::unused() const {
  std::vector<std::string> names;
  for (const bp_tensor& tensor : file_.tensors()) {
    const std::string_view name = view(tensor.name);
    if (bound_.count(&tensor) == 0 && !is_ignored(name)) names.emplace_back(name);
  }
  return names;
}

}  // namespace bp::model
